{{- define "fleetagent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Cut to 50, so that "-worker" and the like still fit into a name of 63. A release's name may have dots, a Service's not. */}}
{{- define "fleetagent.fullname" -}}
{{- $name := include "fleetagent.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | replace "." "-" | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | replace "." "-" | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Quoted, as every name in these templates: a release or namespace may be called 0123 or 1e3. */}}
{{- define "fleetagent.selectorLabels" -}}
app.kubernetes.io/name: {{ include "fleetagent.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "fleetagent.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{- end -}}

{{- define "fleetagent.labels" -}}
{{ include "fleetagent.selectorLabels" . }}
{{ include "fleetagent.commonLabels" . }}
{{- end -}}

{{- define "fleetagent.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "fleetagent.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "fleetagent.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The namespaces with a Role each, as {"names": […]}; empty means the whole cluster. */}}
{{- define "fleetagent.namespaces" -}}
{{- $names := .Values.namespaces | uniq | sortAlpha -}}
{{- if and (not $names) (not .Values.rbac.clusterWide) -}}
{{- $names = list .Release.Namespace -}}
{{- end -}}
{{- dict "names" $names | toJson -}}
{{- end -}}

{{/* The only place where the operator's rights are written is files/rbac-rules.yaml. */}}
{{- define "fleetagent.rbacRules" -}}
{{- required "files/rbac-rules.yaml is missing from the chart" (.Files.Get "files/rbac-rules.yaml") -}}
{{- end -}}

{{/* Those for the peering, with its name in its place; none without one. */}}
{{- define "fleetagent.peeringRules" -}}
{{- if .Values.peering -}}
{{- (include "fleetagent.rbacRules" . | fromYaml).peering | toJson | replace "\"PEERING\"" (.Values.peering | toJson) -}}
{{- else -}}
{"cluster": [], "namespaced": []}
{{- end -}}
{{- end -}}

{{/* What both containers need to reach the same database in the same way. */}}
{{- define "fleetagent.databaseEnv" -}}
- name: FLEETAGENT_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.database.existingSecret | quote }}
      key: {{ .Values.database.key | quote }}
- name: FLEETAGENT_LOG_FORMAT
  value: {{ .Values.logFormat | quote }}
{{- end -}}

{{/* What else the operator is told, in the order of its settings. */}}
{{- define "fleetagent.settingsEnv" -}}
- name: FLEETAGENT_NAMESPACES
  value: {{ (include "fleetagent.namespaces" . | fromJson).names | join "," | quote }}
- name: FLEETAGENT_CLUSTER
  value: {{ .Values.cluster | quote }}
- name: FLEETAGENT_PEERING
  value: {{ .Values.peering | quote }}
- name: FLEETAGENT_ALLOWED_HOSTS
  value: {{ .Values.allowedHosts | join "," | quote }}
- name: FLEETAGENT_WEB_LISTEN
  value: {{ printf "%s:%d" .Values.listenHost (int .Values.web.port) | quote }}
- name: FLEETAGENT_WEB_URL
  value: {{ .Values.web.url | quote }}
- name: FLEETAGENT_HEALTH_LISTEN
  value: {{ printf "%s:%d" .Values.listenHost (int .Values.health.port) | quote }}
- name: FLEETAGENT_WORKER_LISTEN
  value: {{ printf "%s:%d" .Values.listenHost (int .Values.worker.port) | quote }}
- name: FLEETAGENT_WORKER_URL
  value: {{ .Values.worker.url | quote }}
- name: FLEETAGENT_LEASE_SECONDS
  value: {{ .Values.leaseSeconds | quote }}
- name: FLEETAGENT_SILENT_SECONDS
  value: {{ .Values.silentSeconds | quote }}
- name: FLEETAGENT_BEAT_SECONDS
  value: {{ .Values.beatSeconds | quote }}
- name: FLEETAGENT_LOOK_SECONDS
  value: {{ .Values.lookSeconds | quote }}
- name: FLEETAGENT_SETTLING_SECONDS
  value: {{ .Values.settlingSeconds | quote }}
- name: FLEETAGENT_CONFIRM_GONE_SECONDS
  value: {{ .Values.confirmGoneSeconds | quote }}
- name: FLEETAGENT_DATABASE_POOL
  value: {{ .Values.databasePool | quote }}
{{- end -}}

{{/* A name that stands twice would be taken by an API server or not, depending on how it is applied. */}}
{{- define "fleetagent.extraEnv" -}}
{{- $names := list -}}
{{- range concat (include "fleetagent.databaseEnv" . | fromYamlArray) (include "fleetagent.settingsEnv" . | fromYamlArray) -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if has .name $names -}}
{{- fail (printf "extraEnv: %s is there already, by a value of its own or by an entry above" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- with .Values.extraEnv -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- define "fleetagent.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "fleetagent.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.podSecurityContext }}
{{ toYaml . }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "fleetagent.volumeMounts" -}}
- {name: tmp, mountPath: /tmp}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

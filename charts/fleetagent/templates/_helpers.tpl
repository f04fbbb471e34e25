{{- define "fleetagent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Cut to 50, so that "-worker" and the like still fit into a name of 63. */}}
{{- define "fleetagent.fullname" -}}
{{- $name := include "fleetagent.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "fleetagent.selectorLabels" -}}
app.kubernetes.io/name: {{ include "fleetagent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fleetagent.labels" -}}
{{ include "fleetagent.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
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
{{- dict "names" $names | toYaml -}}
{{- end -}}

{{/* The only place where the operator's rights are written is files/rbac-rules.yaml. */}}
{{- define "fleetagent.rbacRules" -}}
{{- required "files/rbac-rules.yaml is missing from the chart" (.Files.Get "files/rbac-rules.yaml") -}}
{{- end -}}

{{/* Both containers reach the same database. */}}
{{- define "fleetagent.databaseEnv" -}}
- name: FLEETAGENT_DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .Values.database.existingSecret }}
      key: {{ .Values.database.key }}
{{- end -}}

{{- define "fleetagent.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

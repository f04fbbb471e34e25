// The floor for Go: what the least operator on controller-runtime needs from a changed annotation to an HTTP POST.
//
// SINK is the URL that is told, NAMESPACE the one namespace that is watched, KUBECONFIG says where.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const requestedAt = "fleetagent.dev/requested-at"

var fleetAgent = schema.GroupVersionKind{Group: "fleetagent.dev", Version: "v1alpha1", Kind: "FleetAgent"}

// floor remembers the last value of each resource; one worker calls it, so the map needs no lock.
type floor struct {
	reader client.Reader
	sink   string
	told   map[string]string
}

func (f *floor) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(fleetAgent)
	if err := f.reader.Get(ctx, request.NamespacedName, found); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	value, name := found.GetAnnotations()[requestedAt], request.String()
	if value == "" || f.told[name] == value {
		return reconcile.Result{}, nil
	}
	f.told[name] = value
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, f.sink, strings.NewReader(value))
	if err != nil {
		return reconcile.Result{}, err
	}
	answer, err := http.DefaultClient.Do(post)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, answer.Body.Close()
}

func run() error {
	sink, namespace := os.Getenv("SINK"), os.Getenv("NAMESPACE")
	if sink == "" || namespace == "" {
		return errors.New("SINK and NAMESPACE must be set")
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: metrics.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	if err != nil {
		return err
	}
	watched := &metav1.PartialObjectMetadata{}
	watched.SetGroupVersionKind(fleetAgent)
	tells := &floor{reader: manager.GetClient(), sink: sink, told: map[string]string{}}
	err = ctrl.NewControllerManagedBy(manager).Named("floor").For(watched, builder.OnlyMetadata).Complete(tells)
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// Command ray-operator runs KubeRay's controllers of RayCluster and RayJob.
//
// KubeRay's own command has webhooks that do not compile with the controller-runtime of the other operators. They are
// off unless asked for, and the controllers validate the same.
package main

import (
	"flag"
	"fmt"
	"os"

	configuration "github.com/ray-project/kuberay/ray-operator/apis/config/v1alpha1"
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/batchscheduler"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	probes := flag.String("health-probe-bind-address", "0", "address of the health checks")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	if err := run(*probes); err != nil {
		fmt.Fprintf(os.Stderr, "ray-operator: %v\n", err)
		os.Exit(1)
	}
}

func run(probes string) error {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, rayv1.AddToScheme} {
		if err := add(known); err != nil {
			return err
		}
	}
	settings := configuration.Configuration{}
	configuration.SetDefaults_Configuration(&settings)
	client := ctrl.GetConfigOrDie()
	client.QPS, client.Burst = float32(*settings.QPS), *settings.Burst
	manager, err := ctrl.NewManager(client, ctrl.Options{
		Scheme:                 known,
		Metrics:                metrics.Options{BindAddress: "0"},
		HealthProbeBindAddress: probes,
	})
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	schedulers, err := batchscheduler.NewSchedulerManager(ctx, settings, client, manager.GetClient())
	if err != nil {
		return err
	}
	clusters := ray.NewReconciler(ctx, manager, ray.RayClusterReconcilerOptions{BatchSchedulerManager: schedulers})
	if err := clusters.SetupWithManager(manager, settings.ReconcileConcurrency); err != nil {
		return err
	}
	options := ray.RayJobReconcilerOptions{BatchSchedulerManager: schedulers}
	jobs := ray.NewRayJobReconciler(ctx, manager, options, settings)
	if err := jobs.SetupWithManager(manager, settings.ReconcileConcurrency); err != nil {
		return err
	}
	if err := manager.AddReadyzCheck("readyz", healthz.Ping); err != nil {
		return err
	}
	return manager.Start(ctx)
}

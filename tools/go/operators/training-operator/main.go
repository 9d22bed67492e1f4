// Command training-operator runs the training operator's controllers and webhooks for PyTorchJob and TFJob.
//
// The operator's own command waits for certificates in /tmp/k8s-webhook-server, which no flag of it changes, and its
// webhooks listen on every interface. This one has its certificate below TMPDIR and listens on 127.0.0.1.
package main

import (
	"flag"
	"fmt"
	"os"

	trainingv1 "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/config"
	controllers "github.com/kubeflow/training-operator/pkg/controller.v1"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	"github.com/kubeflow/training-operator/pkg/webhooks"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	coscheduling "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	volcano "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

const loopback = "127.0.0.1"

func main() {
	probes := flag.String("health-probe-bind-address", "0", "address of the health checks")
	port := flag.Int("webhook-server-port", 9443, "port of the webhooks")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	server := webhook.NewServer(webhook.Options{Host: loopback, Port: *port})
	if err := run(*probes, server); err != nil {
		fmt.Fprintf(os.Stderr, "training-operator: %v\n", err)
		os.Exit(1)
	}
}

func run(probes string, server webhook.Server) error {
	config.Config.PyTorchInitContainerImage = config.PyTorchInitContainerImageDefault
	config.Config.PyTorchInitContainerTemplateFile = config.PyTorchInitContainerTemplateFileDefault
	config.Config.PyTorchInitContainerMaxTries = config.PyTorchInitContainerMaxTriesDefault
	known := runtime.NewScheme()
	// Where the API server has PodGroups, the operator watches them, whatever it is told of gangs.
	kinds := []func(*runtime.Scheme) error{
		scheme.AddToScheme, trainingv1.AddToScheme, coscheduling.AddToScheme, volcano.AddToScheme,
	}
	for _, add := range kinds {
		if err := add(known); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                 known,
		Metrics:                metrics.Options{BindAddress: "0"},
		WebhookServer:          server,
		HealthProbeBindAddress: probes,
	})
	if err != nil {
		return err
	}
	for _, kind := range []string{trainingv1.PyTorchJobKind, trainingv1.TFJobKind} {
		reconcile := controllers.SupportedSchemeReconciler[kind]
		if err := reconcile(manager, common.GenNonGangSchedulerSetupFunc(), 1); err != nil {
			return err
		}
		if err := webhooks.SupportedSchemeWebhook[kind](manager); err != nil {
			return err
		}
	}
	if err := manager.AddReadyzCheck("readyz", server.StartedChecker()); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

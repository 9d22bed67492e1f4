// Command mpi-operator runs the MPI operator's controller, and nothing that listens.
//
// The operator's own command answers health checks at port 8080 of every interface, which no flag of it changes.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/kubeflow/mpi-operator/cmd/mpi-operator/app/options"
	"github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned"
	mpischeme "github.com/kubeflow/mpi-operator/pkg/client/clientset/versioned/scheme"
	"github.com/kubeflow/mpi-operator/pkg/client/informers/externalversions"
	"github.com/kubeflow/mpi-operator/pkg/controller"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	settings := options.NewServerOption()
	settings.AddFlags(flag.CommandLine)
	flag.Parse()
	if err := run(settings); err != nil {
		fmt.Fprintf(os.Stderr, "mpi-operator: %v\n", err)
		os.Exit(1)
	}
}

func run(settings *options.ServerOption) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	config.QPS, config.Burst = float32(settings.QPS), settings.Burst
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	jobs, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := mpischeme.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	core := informers.NewSharedInformerFactory(kube, 0)
	own := externalversions.NewSharedInformerFactory(jobs, 0)
	started, err := controller.NewMPIJobController(
		ctx,
		kube,
		jobs,
		nil, // no client of Volcano: settings name no gang scheduler
		nil, // nor of scheduler-plugins
		core.Core().V1().ConfigMaps(),
		core.Core().V1().Secrets(),
		core.Core().V1().Services(),
		core.Batch().V1().Jobs(),
		core.Core().V1().Pods(),
		core.Scheduling().V1().PriorityClasses(),
		own.Kubeflow().V2beta1().MPIJobs(),
		settings,
	)
	if err != nil {
		return err
	}
	core.Start(ctx.Done())
	own.Start(ctx.Done())
	return started.Run(settings.Threadiness, ctx.Done())
}

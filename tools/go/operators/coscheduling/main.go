// Command coscheduling runs kube-scheduler with the coscheduling plugin.
//
// The plugin's own command is compiled into a Kubernetes of its own, with other plugins. This one has the Kubernetes of
// the other operators.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"

	// The types of the plugin's arguments.
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(coscheduling.Name, coscheduling.New))))
}

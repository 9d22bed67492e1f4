// Pins what tools/update-schemas reads. Nothing is built here: `go mod download` fetches these, go.sum verifies them.
module trainyard.dev/tools/go/schemas

go 1.26.3

require (
	github.com/argoproj/argo-cd/v3 v3.5.7
	github.com/argoproj/argo-workflows/v3 v3.7.4
	github.com/external-secrets/external-secrets v0.19.2
	github.com/fluxcd/kustomize-controller v1.9.5
	github.com/fluxcd/source-controller v1.9.5
	github.com/k8snetworkplumbingwg/network-attachment-definition-client v1.7.7
	github.com/kubeflow/mpi-operator v0.8.2
	github.com/kubeflow/trainer/v2 v2.3.0
	github.com/kubeflow/training-operator v1.9.4
	github.com/prometheus-operator/prometheus-operator v0.85.0
	github.com/ray-project/kuberay/ray-operator v1.6.2
	k8s.io/kubernetes v1.36.3
	sigs.k8s.io/jobset v0.12.0
	sigs.k8s.io/kueue v0.19.2
	sigs.k8s.io/scheduler-plugins v0.35.4-devel
	volcano.sh/volcano v1.15.1
)

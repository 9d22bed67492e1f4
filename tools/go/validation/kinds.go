package main

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/apps"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	batchvalidation "k8s.io/kubernetes/pkg/apis/batch/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	"k8s.io/kubernetes/pkg/apis/rbac"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	rbacvalidation "k8s.io/kubernetes/pkg/apis/rbac/validation"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	schedulingvalidation "k8s.io/kubernetes/pkg/apis/scheduling/validation"
	"k8s.io/kubernetes/pkg/apis/storage"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	storagevalidation "k8s.io/kubernetes/pkg/apis/storage/validation"
	"k8s.io/kubernetes/pkg/capabilities"
)

func init() {
	// As clusters set it: who may be privileged is for Pod Security to say.
	capabilities.Setup(true, 0)
}

// uid stands for that of a new object, which the server makes.
const uid = types.UID("00000000-0000-0000-0000-000000000000")

// keptOfBase is how much of generateName the server keeps, before it adds five characters.
const keptOfBase = 58

// validate gives what the server would refuse of a new object, or why it cannot read it.
func validate(object []byte) (field.ErrorList, error) {
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &head); err != nil {
		return nil, err
	}
	head.Name = nameOf(&head)
	if !legacyscheme.Scheme.Recognizes(head.GroupVersionKind()) {
		return onlyMetadata(&head), nil
	}
	read, _, err := legacyscheme.Codecs.UniversalDecoder().Decode(object, nil, nil)
	if err != nil {
		return nil, err
	}
	if named, ok := read.(metav1.Object); ok {
		if isOfCluster(read) {
			named.SetNamespace("")
		} else if named.GetNamespace() == "" {
			named.SetNamespace(metav1.NamespaceDefault)
		}
		named.SetName(head.Name)
		named.SetUID(uid)
	}
	return ofKind(read, &head), nil
}

// nameOf gives an object's name, or one that the server could make for it.
func nameOf(object metav1.Object) string {
	if object.GetName() == "" && object.GetGenerateName() != "" {
		base := object.GetGenerateName()
		return base[:min(len(base), keptOfBase)] + "xxxxx"
	}
	return object.GetName()
}

// onlyMetadata validates what all objects have. Whether the kind has a namespace is not known.
func onlyMetadata(head *metav1.PartialObjectMetadata) field.ErrorList {
	hasNamespace := head.Namespace != ""
	return validation.ValidateObjectMeta(&head.ObjectMeta, hasNamespace, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

func isOfCluster(object runtime.Object) bool {
	switch object.(type) {
	case *core.Namespace, *core.Node, *core.PersistentVolume, *rbac.ClusterRole, *rbac.ClusterRoleBinding,
		*scheduling.PriorityClass, *storage.StorageClass:
		return true
	}
	return false
}

// ofKind prepares an object as the strategy of its kind does in k8s.io/kubernetes/pkg/registry, and validates it.
func ofKind(object runtime.Object, head *metav1.PartialObjectMetadata) field.ErrorList {
	switch it := object.(type) {
	case *apps.DaemonSet:
		return appsvalidation.ValidateDaemonSet(it, pod.GetValidationOptionsFromPodTemplate(&it.Spec.Template, nil))
	case *apps.Deployment:
		return appsvalidation.ValidateDeployment(it, pod.GetValidationOptionsFromPodTemplate(&it.Spec.Template, nil))
	case *apps.ReplicaSet:
		return appsvalidation.ValidateReplicaSet(it, pod.GetValidationOptionsFromPodTemplate(&it.Spec.Template, nil))
	case *apps.StatefulSet:
		return appsvalidation.ValidateStatefulSet(it, pod.GetValidationOptionsFromPodTemplate(&it.Spec.Template, nil))
	case *batch.CronJob:
		template := &it.Spec.JobTemplate.Spec.Template
		return batchvalidation.ValidateCronJobCreate(it, pod.GetValidationOptionsFromPodTemplate(template, nil))
	case *batch.Job:
		selectOwn(it)
		return batchvalidation.ValidateJob(it, batchvalidation.JobValidationOptions{
			PodValidationOptions:  pod.GetValidationOptionsFromPodTemplate(&it.Spec.Template, nil),
			RequirePrefixedLabels: true,
		})
	case *core.ConfigMap:
		return corevalidation.ValidateConfigMap(it)
	case *core.LimitRange:
		return corevalidation.ValidateLimitRange(it)
	case *core.Namespace:
		return corevalidation.ValidateNamespace(it)
	case *core.PersistentVolume:
		return corevalidation.ValidatePersistentVolume(it, corevalidation.ValidationOptionsForPersistentVolume(it, nil))
	case *core.PersistentVolumeClaim:
		return corevalidation.ValidatePersistentVolumeClaim(it, corevalidation.ValidationOptionsForPersistentVolumeClaim(it, nil))
	case *core.Pod:
		options := pod.GetValidationOptionsFromPodSpecAndMeta(&it.Spec, nil, &it.ObjectMeta, nil)
		options.ResourceIsPod = true
		return corevalidation.ValidatePodCreate(it, options)
	case *core.PodTemplate:
		return corevalidation.ValidatePodTemplate(it, pod.GetValidationOptionsFromPodTemplate(&it.Template, nil))
	case *core.ResourceQuota:
		return corevalidation.ValidateResourceQuota(it)
	case *core.Secret:
		return corevalidation.ValidateSecret(it)
	case *core.Service:
		if it.Spec.ClusterIP != "" && len(it.Spec.ClusterIPs) == 0 {
			it.Spec.ClusterIPs = []string{it.Spec.ClusterIP}
		}
		return corevalidation.ValidateServiceCreate(it)
	case *core.ServiceAccount:
		return corevalidation.ValidateServiceAccount(it)
	case *networking.Ingress:
		return networkingvalidation.ValidateIngressCreate(it)
	case *networking.NetworkPolicy:
		return networkingvalidation.ValidateNetworkPolicy(it, networkingvalidation.ValidationOptionsForNetworking(it, nil))
	case *policy.PodDisruptionBudget:
		return policyvalidation.ValidatePodDisruptionBudget(it, policyvalidation.PodDisruptionBudgetValidationOptions{})
	case *rbac.ClusterRole:
		return rbacvalidation.ValidateClusterRole(it, rbacvalidation.ClusterRoleValidationOptions{})
	case *rbac.ClusterRoleBinding:
		return rbacvalidation.ValidateClusterRoleBinding(it)
	case *rbac.Role:
		return rbacvalidation.ValidateRole(it)
	case *rbac.RoleBinding:
		return rbacvalidation.ValidateRoleBinding(it)
	case *scheduling.PriorityClass:
		return schedulingvalidation.ValidatePriorityClass(it)
	case *storage.StorageClass:
		return storagevalidation.ValidateStorageClass(it)
	}
	return onlyMetadata(head)
}

// selectOwn gives a Job the labels and the selector that the server gives it.
func selectOwn(job *batch.Job) {
	if job.Spec.ManualSelector != nil && *job.Spec.ManualSelector {
		return
	}
	template := &job.Spec.Template
	given := map[string]string{
		batch.LegacyJobNameLabel: job.Name, batch.JobNameLabel: job.Name,
		batch.LegacyControllerUidLabel: string(uid), batch.ControllerUidLabel: string(uid),
	}
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	for label, value := range given {
		if _, found := template.Labels[label]; !found {
			template.Labels[label] = value
		}
	}
	if job.Spec.Selector == nil {
		job.Spec.Selector = &metav1.LabelSelector{}
	}
	if job.Spec.Selector.MatchLabels == nil {
		job.Spec.Selector.MatchLabels = map[string]string{}
	}
	if _, found := job.Spec.Selector.MatchLabels[batch.ControllerUidLabel]; !found {
		job.Spec.Selector.MatchLabels[batch.ControllerUidLabel] = string(uid)
	}
}

// Package verify_test decodes the manifests as strictly as a Kubernetes API server. It is a
// separate module, because the program does not depend on Kubernetes.
package verify_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// manifests contains all Kubernetes objects of this directory.
type manifests struct {
	sets     []appsv1.StatefulSet
	services []corev1.Service
	budgets  []policyv1.PodDisruptionBudget
}

// decode decodes one YAML document. A field that does not exist in its type is an error.
func (m *manifests) decode(t *testing.T, document []byte) {
	t.Helper()
	var kind v1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		t.Fatal(err)
	}
	var err error
	switch kind.APIVersion + " " + kind.Kind {
	case "apps/v1 StatefulSet":
		m.sets = append(m.sets, appsv1.StatefulSet{})
		err = yaml.UnmarshalStrict(document, &m.sets[len(m.sets)-1])
	case "v1 Service":
		m.services = append(m.services, corev1.Service{})
		err = yaml.UnmarshalStrict(document, &m.services[len(m.services)-1])
	case "policy/v1 PodDisruptionBudget":
		m.budgets = append(m.budgets, policyv1.PodDisruptionBudget{})
		err = yaml.UnmarshalStrict(document, &m.budgets[len(m.budgets)-1])
	default:
		t.Errorf("unknown kind %s %s", kind.APIVersion, kind.Kind)
	}
	if err != nil {
		t.Errorf("%s: %v", kind.Kind, err)
	}
}

// kustomization is the content of kustomization.yaml. The test does not use Kustomize itself, which would
// take longer to compile than all other code.
type kustomization struct {
	v1.TypeMeta `json:",inline"`
	Resources   []string `json:"resources"`
	Images      []struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
	} `json:"images"`
}

// files returns kustomization.yaml and the manifests that it lists.
func files(t *testing.T) (kustomization, *manifests) {
	t.Helper()
	var k kustomization
	b, err := os.ReadFile("../kustomization.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(b, &k)
	}
	if err != nil {
		t.Fatal(err)
	}
	var m manifests
	for _, name := range k.Resources {
		b, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range bytes.Split(b, []byte("\n---\n")) {
			m.decode(t, document)
		}
	}
	if len(m.sets) != 1 || len(m.services) != 2 || len(m.budgets) != 1 {
		t.Fatalf("there are %d sets, %d services, %d budgets", len(m.sets), len(m.services), len(m.budgets))
	}
	return k, &m
}

// kustomization.yaml lists all files, and replaces the image of the node.
func TestKustomizationListsAllFiles(t *testing.T) {
	k, m := files(t)
	existing, err := filepath.Glob("../*.yaml")
	if err != nil || len(k.Resources) != len(existing)-1 {
		t.Errorf("kustomization.yaml lists %q of %q, %v", k.Resources, existing, err)
	}
	if k.APIVersion != "kustomize.config.k8s.io/v1beta1" || k.Kind != "Kustomization" {
		t.Errorf("type %+v", k.TypeMeta)
	}
	node := m.sets[0].Spec.Template.Spec.InitContainers[0]
	if len(k.Images) != 1 || k.Images[0].Name != node.Image {
		t.Errorf("it replaces %+v, the image of the node is %s", k.Images, node.Image)
	}
}

// The services and the disruption budget select the pods, and the ports of the services exist.
func TestObjectsMatchEachOther(t *testing.T) {
	_, m := files(t)
	set := m.sets[0].Spec
	pods := labels.Set(set.Template.Labels)
	for _, s := range m.services {
		if !labels.SelectorFromSet(s.Spec.Selector).Matches(pods) {
			t.Errorf("service %s selects %v, pods have %v", s.Name, s.Spec.Selector, pods)
		}
		for _, p := range s.Spec.Ports {
			if !slices.ContainsFunc(ports(&set), func(c corev1.ContainerPort) bool {
				return c.Name == p.TargetPort.StrVal && orTCP(c.Protocol) == orTCP(p.Protocol)
			}) {
				t.Errorf("service %s has target port %s, which no container has", s.Name, p.TargetPort.StrVal)
			}
		}
		nodes := s.Name == set.ServiceName
		if headless := s.Spec.ClusterIP == corev1.ClusterIPNone; headless != nodes || s.Spec.PublishNotReadyAddresses != nodes {
			t.Errorf("service %s: headless %v, with pods that are not ready %v, for nodes %v", s.Name, headless, s.Spec.PublishNotReadyAddresses, nodes)
		}
	}
	if set.PodManagementPolicy != appsv1.ParallelPodManagement {
		t.Errorf("pods start %q: the first pod would wait forever for the others", set.PodManagementPolicy)
	}
	for _, s := range []*v1.LabelSelector{set.Selector, m.budgets[0].Spec.Selector} {
		if chosen, err := v1.LabelSelectorAsSelector(s); err != nil || chosen.Empty() || !chosen.Matches(pods) {
			t.Errorf("%v does not select the pods, %v", s, err)
		}
	}
	if most := m.budgets[0].Spec.MaxUnavailable; most == nil || *most != intstr.FromInt32(1) {
		t.Errorf("%v pods may be unavailable at once", most)
	}
}

func orTCP(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}

func ports(set *appsv1.StatefulSetSpec) (all []corev1.ContainerPort) {
	for _, c := range slices.Concat(set.Template.Spec.InitContainers, set.Template.Spec.Containers) {
		all = append(all, c.Ports...)
	}
	return all
}

// The node is a sidecar, so it starts before the app and ends after it. Both containers wait for the drain
// before they get SIGTERM, and none runs as root.
func TestNodeOutlivesItsApp(t *testing.T) {
	_, m := files(t)
	spec := m.sets[0].Spec.Template.Spec
	node, app := spec.InitContainers[0], spec.Containers[0]
	if node.RestartPolicy == nil || *node.RestartPolicy != corev1.ContainerRestartPolicyAlways || node.StartupProbe == nil {
		t.Error("the node is not a sidecar, or the app does not wait for it")
	}
	if node.Lifecycle == nil || node.Lifecycle.PreStop == nil || node.Lifecycle.PreStop.Exec == nil || app.Lifecycle == nil || app.Lifecycle.PreStop == nil || app.Lifecycle.PreStop.HTTPGet == nil {
		t.Fatal("a container gets SIGTERM immediately")
	}
	wait := app.Lifecycle.PreStop.HTTPGet
	probes := slices.IndexFunc(node.Ports, func(p corev1.ContainerPort) bool { return p.Name == "probes" })
	if probes < 0 || wait.Port.IntVal != node.Ports[probes].ContainerPort {
		t.Errorf("the app waits at port %v", wait.Port)
	}
	for _, p := range []*corev1.Probe{node.StartupProbe, node.LivenessProbe, node.ReadinessProbe} {
		if p == nil || p.HTTPGet == nil || p.HTTPGet.Port.StrVal != "probes" {
			t.Errorf("probe %+v", p)
		} else if ready := p == node.ReadinessProbe; ready != (p.HTTPGet.Path == "/readyz") {
			t.Errorf("a probe requests %s", p.HTTPGet.Path)
		}
	}
	if s := spec.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.FSGroup == nil {
		t.Error("the pod may be root, or cannot read its secret")
	}
	for _, c := range []corev1.Container{node, app} {
		if s := c.SecurityContext; s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.Capabilities == nil || len(s.Capabilities.Drop) != 1 {
			t.Errorf("container %s has more permissions than it needs: %+v", c.Name, s)
		}
		for _, mount := range c.VolumeMounts {
			if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) && mount.Name != "data" {
				t.Errorf("container %s has a mount %q of no volume", c.Name, mount.Name)
			}
		}
	}
	for _, v := range spec.Volumes {
		if v.Secret != nil && (v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o400) {
			t.Errorf("the secret has mode %v", v.Secret.DefaultMode)
		}
	}
	if names := strings.Join(names(node.Env), " "); names != "SHARDWAY_NODE metadata.name SHARDWAY_GOSSIP_ADVERTISE status.podIP SHARDWAY_PEER_ADVERTISE status.podIP" {
		t.Errorf("the node is called %s", names)
	}
}

// names lists variables with the fields that they come from.
func names(env []corev1.EnvVar) (all []string) {
	for _, e := range env {
		all = append(all, e.Name)
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			all = append(all, e.ValueFrom.FieldRef.FieldPath)
		}
	}
	return all
}

package deploy_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"shardway/config"
)

// pod is what this test wants to know of the StatefulSet; kubernetes/verify decodes it
// whole.
type pod struct {
	Spec struct {
		Replicas int    `yaml:"replicas"`
		Service  string `yaml:"serviceName"`
		Template struct {
			Spec struct {
				Grace int         `yaml:"terminationGracePeriodSeconds"`
				Init  []container `yaml:"initContainers"`
				Apps  []container `yaml:"containers"`
			} `yaml:"spec"`
		} `yaml:"template"`
	} `yaml:"spec"`
}

type container struct {
	Args []string `yaml:"args"`
	Env  []struct {
		Name string `yaml:"name"`
	} `yaml:"env"`
	Lifecycle struct {
		PreStop struct {
			Exec struct {
				Command []string `yaml:"command"`
			} `yaml:"exec"`
			HTTP struct {
				Path string `yaml:"path"`
				Port int    `yaml:"port"`
			} `yaml:"httpGet"`
		} `yaml:"preStop"`
	} `yaml:"lifecycle"`
}

// The pod's command line, with an address and a name as Kubernetes gives them, are
// settings that go together; what follows each other when it ends fits into the time
// that it has.
func TestPodRunsWhatTheProgramTakes(t *testing.T) {
	var p pod
	if err := yaml.Unmarshal([]byte(read(t, "kubernetes/statefulset.yaml")), &p); err != nil {
		t.Fatal(err)
	}
	node, app := p.Spec.Template.Spec.Init[0], p.Spec.Template.Spec.Apps[0]
	for _, ip := range []string{"10.244.1.7", "fd00:10:244::7"} {
		var environ []string
		for _, e := range node.Env {
			value := ip
			if e.Name == "SHARDWAY_NODE" {
				value = "shardway-0"
			}
			environ = append(environ, e.Name+"="+value)
		}
		c := load(t, node.Args[1:], environ, nil)
		if node.Args[0] != "run" || c.Node != "shardway-0" || !strings.Contains(c.GossipAdvertise, ip) || !strings.Contains(c.PeerAdvertise, ip) {
			t.Errorf("node %q at %s and %s", c.Node, c.GossipAdvertise, c.PeerAdvertise)
		}
		if c.BootstrapExpect != p.Spec.Replicas || !slices.Equal(c.Join, []string{p.Spec.Service}) {
			t.Errorf("of %d pods of %s it expects %d at %v", p.Spec.Replicas, p.Spec.Service, c.BootstrapExpect, c.Join)
		}
		fitsInto(t, time.Duration(p.Spec.Template.Spec.Grace)*time.Second, &c, node, app)
	}
}

// fitsInto checks the end of a pod: node and app are told at once that it comes, the app
// stops when the node is drained, then the node does.
func fitsInto(t *testing.T, grace time.Duration, c *config.Config, node, app container) {
	t.Helper()
	const appsEnd = 10 * time.Second
	drain := node.Lifecycle.PreStop.Exec.Command
	i := slices.IndexFunc(drain, func(a string) bool { return strings.HasPrefix(a, "--timeout=") })
	if i < 0 || !slices.Contains(drain, "--data="+c.Data) {
		t.Fatalf("the node's preStop is %q", drain)
	}
	timeout, err := time.ParseDuration(strings.TrimPrefix(drain[i], "--timeout="))
	if err != nil || timeout < c.DrainTimeout+c.ReleaseTimeout+c.StreamGrace {
		t.Errorf("the drain has %v, %v", timeout, err)
	}
	at := app.Lifecycle.PreStop.HTTP
	u, err := url.Parse(at.Path)
	if err != nil || u.Path != "/drained" || u.Query().Get("wait") != timeout.String() || !strings.HasSuffix(c.Probes, ":8082") || at.Port != 8082 {
		t.Errorf("the app waits at %+v, probes are at %s, %v", at, c.Probes, err)
	}
	if least := timeout + appsEnd + c.ShutdownTimeout; grace <= least {
		t.Errorf("the pod has %v to end, and takes up to %v", grace, least)
	}
}

package config_test

import (
	"strings"
	"testing"

	"shardway/config"
)

func loaded(t *testing.T, yaml string, args ...string) *config.Config {
	t.Helper()
	c, err := config.Load(append([]string{"--config=f.yaml"}, args...), nil, yamlFile(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

func TestClusterSettingsAreEqualForEqualMeaning(t *testing.T) {
	a := loaded(t, "key: [header:X-Tenant]\nroutes:\n  /a: [header:X-A, ip]\n  /bb: path:1\n", "--drain-timeout=2s").ClusterSettings()
	b := loaded(t, "key: [header:x-tenant]\nroutes:\n  /bb: path:1\n  /a: [header:x-a, ip]\n", "--drain-timeout=2000ms").ClusterSettings()
	for name, value := range a {
		if b[name] != value {
			t.Errorf("%s: %q and %q", name, value, b[name])
		}
	}
	for name, want := range map[string]string{"key": "header:x-tenant", "routes": "/bb: path:1; /a: header:x-a,ip", "on-missing-key": "reject", "drain-timeout": "2s", "trusted-proxies": "", "hooks": ""} {
		if got, ok := a[name]; name != "hooks" && !ok || got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestClusterSettingsLeaveOutWhatANodeMayHaveForItself(t *testing.T) {
	gateway, node := loaded(t, "").ClusterSettings(), loaded(t, "", "--upstream=http://127.0.0.1:9000", "--hooks=/h").ClusterSettings()
	if _, ok := gateway["hooks"]; ok {
		t.Error("a gateway without hooks counts as one that differs")
	}
	if _, ok := gateway["trusted-proxies"]; ok {
		t.Error("trusted-proxies count though no key depends on them")
	}
	if node["hooks"] != "/h" || node["release-timeout"] != "4s" {
		t.Errorf("hooks %q, release-timeout %q", node["hooks"], node["release-timeout"])
	}
	own := loaded(t, "", "--upstream=http://127.0.0.1:9000", "--hooks=http://127.0.0.1:9001").ClusterSettings()
	if strings.Contains(own["hooks"], "127.0.0.1") {
		t.Errorf("an address of the machine is compared: %q", own["hooks"])
	}
}

func TestLongClusterSettingEndsInItsHash(t *testing.T) {
	long := func(last string) string {
		return loaded(t, "key: ["+strings.Repeat("header:X-Tenant, ", 100)+last+"]\n").ClusterSettings()["key"]
	}
	a, b := long("ip"), long("host")
	if a == b || len(a) > 160 || len(b) > 160 {
		t.Errorf("%q and %q", a, b)
	}
}

func TestReloadKeepsWhatNeedsARestart(t *testing.T) {
	started, next := loaded(t, "key: [ip]\n"), loaded(t, "key: [host]\n", "--body-buffer=128KiB")
	running := next.RunningSettings(started)
	if running["key"] != "host" || running["body-buffer"] != "64KiB" {
		t.Errorf("%v", running)
	}
	if _, ok := running["trusted-proxies"]; ok {
		t.Error("trusted-proxies of the former key still count")
	}
}

func TestReplicasOfEachService(t *testing.T) {
	c := loaded(t, "replicas: 2\nservices:\n  chat: {routes: [/chat], key: path:2, replicas: 1}\n  default: {routes: [/], key: path:1}\n")
	if got := c.StandbyCounts(); got["chat"] != 1 || got["default"] != 2 || len(got) != 2 {
		t.Errorf("replicas %v, want 1 for chat and 2 for default", got)
	}
	if got := c.ClusterSettings()["replicas"]; got != "chat=1,default=2" {
		t.Errorf("cluster setting %q", got)
	}
	single := loaded(t, "", "--replicas=3")
	if got := single.StandbyCounts(); got["default"] != 3 || single.ClusterSettings()["replicas"] != "3" {
		t.Errorf("replicas %v, cluster setting %q", got, single.ClusterSettings()["replicas"])
	}
	_, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile("services:\n  chat: {routes: [/], key: path:2, replicas: 9}\n"))
	if err == nil || !strings.Contains(err.Error(), "services.chat.replicas") || !strings.Contains(err.Error(), "8") {
		t.Errorf("9 replicas: %v, want an error with the setting and the limit", err)
	}
}

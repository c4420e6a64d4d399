package config_test

import (
	"os"
	"strings"
	"testing"

	"shardway/config"
)

func TestExecRules(t *testing.T) {
	for args, want := range map[string]string{
		"--exec=app|":                                     "",
		"--exec=app {addr} {dir} {key}":                   "",
		"--exec=app {port} {shard}|--exec-per=shard":      "",
		"--exec=app {":                                    "exec = \"app {\"",
		"--exec={key}":                                    "first word",
		"--exec=app|--upstream=http://127.0.0.1:9000":     "remove one of exec and upstream",
		"--exec=app|--hooks=/h":                           "takes the place of hooks",
		"--exec=app|--health=/h":                          "use exec-ready",
		"--exec=app|--takeover=immediate":                 "use lease or timeout",
		"--exec=app|--on-missing-key=local":               "a request without a key has no process",
		"--exec=app {key}|--exec-per=shard":               "a shard has many keys",
		"--exec=app|--exec-per=shard|--exec-ready=/{key}": "leave {key} out",
		"--exec=app|--exec-per=room":                      "choose one of key, shard",
		"--exec=app|--exec-max=0":                         "exec-max",
		"--exec=app|--max-shard-conns=5":                  "each process has its own connections",
	} {
		_, err := config.Load(strings.Split(strings.TrimSuffix(args, "|"), "|"), nil, os.ReadFile)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	cfg, err := config.Load([]string{"--exec-dir=/e", "--upstream=http://127.0.0.1:9000"}, nil, os.ReadFile)
	if advice := cfg.Advice(); err != nil || len(advice) != 1 || advice[0].Key != "exec-dir" {
		t.Errorf("advice %+v, %v", advice, err)
	}
	cfg, err = config.Load([]string{"--exec=app", "--data=/d"}, nil, os.ReadFile)
	if err != nil || cfg.Gateway() || !cfg.HasHooks() || cfg.ExecDirectory() != "/d/exec" {
		t.Errorf("gateway %v, hooks %v, directory %s, %v", cfg.Gateway(), cfg.HasHooks(), cfg.ExecDirectory(), err)
	}
}

package config_test

import (
	"slices"
	"testing"

	"shardway/config"
)

func TestSinceSeparatesLiveAndRestartSettings(t *testing.T) {
	load := func(file string, args ...string) config.Config {
		t.Helper()
		c, err := config.Load(append([]string{"--config", "f"}, args...), nil, func(string) ([]byte, error) { return []byte(file), nil })
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := load("key: [header:A]\nlog_level: info\nlisten: :8080\n")
	same := load("key: [header:A]\n\nlisten: :8080\n")
	if d := same.ChangesSince(&before); !d.IsEmpty() {
		t.Errorf("the same settings differ: %+v", d)
	}
	after := load("key: [header:B]\nlog_level: debug\nlisten: :8082\nroutes:\n  /a: [path:2]\n", "--max-voters=3")
	d := after.ChangesSince(&before)
	if want := []string{"key", "log-level", "routes"}; !slices.Equal(d.Live, want) {
		t.Errorf("Live = %v, want %v", d.Live, want)
	}
	if want := []string{"listen", "max-voters"}; !slices.Equal(d.Restart, want) {
		t.Errorf("Restart = %v, want %v", d.Restart, want)
	}
}

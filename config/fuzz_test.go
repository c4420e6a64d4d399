package config_test

import (
	"testing"

	"shardway/config"
)

// Whatever stands in the file, reading it ends, and every mistake has a remedy.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"node: a\nkey: [header:X-A, path:2]\nroutes:\n  /api: host\n", "a: &x 1\nb: *x\n", "- a\n---\n!!map {}", "node: |\n  a\n  b\n", "routes: {/: [ip]}\n<<: {a: b}", "? [a]\n: b\n", "\"lease\": 'x'\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile(text))
		for _, p := range problems(t, err) {
			if p.Remedy == "" || p.Message == "" {
				t.Errorf("%q: %+v", text, p)
			}
		}
	})
}

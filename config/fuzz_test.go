package config_test

import (
	"testing"

	"shardway/config"
	"shardway/keysource"
)

// Whatever stands in the file, reading it ends, and every mistake has a remedy.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"node: a\nkey: [header:X-A, path:2]\nroutes:\n  /api: host\n", "a: &x 1\nb: *x\n", "- a\n---\n!!map {}", "node: |\n  a\n  b\n", "routes: {/: [ip]}\n<<: {a: b}", "? [a]\n: b\n", "\"lease\": 'x'\n",
		"services:\n  chat: {routes: [a.b/c, '*.x'], key: path:2, upstream: 'http://127.0.0.1:1', paths: {/x: {key: ip}}}\n  d: {routes: /, shards: 8}\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Load([]string{"--config=f.yaml"}, nil, yamlFile(text))
		if err == nil {
			canonical, canonicalErr := c.KeyConfig().Canonical()
			if _, parseErr := keysource.ParseConfig(canonical); canonicalErr != nil || parseErr != nil {
				t.Errorf("%q: %v, %v", text, canonicalErr, parseErr)
			}
		}
		for _, p := range problems(t, err) {
			if p.Remedy == "" || p.Message == "" {
				t.Errorf("%q: %+v", text, p)
			}
		}
	})
}

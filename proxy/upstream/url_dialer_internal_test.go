package upstream

import (
	"fmt"
	"strings"
	"testing"

	"shardway/config"
)

// FuzzConfiguredUpstreamIsDialed tests that the configuration and the proxy accept the same upstream
// addresses.
func FuzzConfiguredUpstreamIsDialed(f *testing.F) {
	for _, seed := range []string{
		"http://127.0.0.1:9000", "http://app", "http://app:0", "http://app:99999", "http://app/x#y", "127.0.0.1:9000",
		"unix:/run/app.sock", "unix:///run/app.sock", "unix:", "http://a b", "https://app", "/a b", "/a#b", "a",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" {
			return // a gateway
		}
		c := config.Default()
		c.Upstream = text
		checked := c.Validate()
		_, ran := URLDialer(text)
		if (checked == nil) != (ran == nil) {
			t.Fatalf("%q: config returns %v, the proxy %v", text, checked, ran)
		}
		for _, err := range []error{checked, ran} {
			if err != nil && !strings.Contains(err.Error(), text) && !strings.Contains(err.Error(), strings.Trim(fmt.Sprintf("%q", text), `"`)) {
				t.Fatalf("%v does not name %q", err, text)
			}
		}
	})
}

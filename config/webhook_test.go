package config_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"shardway/config"
)

// The URL of the webhook can contain a password and a token. No value that is shown contains them, and a reload
// recognizes another token.
func TestWebhookSecretsAreNotShown(t *testing.T) {
	load := func(url string) config.Config {
		c, err := config.Load([]string{"--webhook", url}, nil, os.ReadFile)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := load("https://hidden-user:hidden-word@hub.example:8443/hidden-path?hidden=query")
	values := fmt.Sprintf("%+v", c.Values())
	if !strings.Contains(values, "https://hub.example:8443/…") || strings.Contains(values, "hidden") {
		t.Errorf("values %s", values)
	}
	if shown := fmt.Sprintf("%+v %+v", c.ClusterSettings(), c.Explain()); strings.Contains(shown, "hidden") {
		t.Errorf("shown %s", shown)
	}
	other := load("https://hidden-user:hidden-word@hub.example:8443/hidden-path?hidden=other")
	if changes := other.ChangesSince(&c); !slices.Equal(changes.Live, []string{"webhook"}) || len(changes.Restart) > 0 {
		t.Errorf("changes %+v", changes)
	}
	same := load(c.Webhook)
	if changes := same.ChangesSince(&c); !changes.IsEmpty() {
		t.Errorf("changes %+v", changes)
	}
}

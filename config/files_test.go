package config_test

import (
	"strings"
	"testing"

	"shardway/config"
)

// A socket is two descriptors where its client is and two where its app is, so a gateway
// needs fewer than a node with an app.
func TestDescriptorsFollowFromTheBounds(t *testing.T) {
	c := config.Default()
	c.Upstream, c.MaxConns, c.MaxUpstreamConns, c.MaxStreams = "http://127.0.0.1:3000", 1000, 100, 10
	if got := c.Descriptors(); got != 2*1110+1280 {
		t.Errorf("a node with an app needs %d", got)
	}
	for limit, holds := range map[uint64]bool{3499: false, 3500: true} {
		if b := c.DescriptorBound(limit); b.Holds != holds || !b.Advice || !strings.Contains(b.Figures, "3500 ≤ ") {
			t.Errorf("with a limit of %d: %+v", limit, b)
		}
	}
	c.Upstream = ""
	if got := c.Descriptors(); got != 2*1000+1280 {
		t.Errorf("a gateway needs %d", got)
	}
	found := false
	for _, f := range c.Figures() {
		found = found || f.Name == "descriptors at most" && f.Value == "3280"
		if f.Name == "sockets at most" && f.Value != "1000 of clients here" {
			t.Errorf("sockets of a gateway: %s", f.Value)
		}
	}
	if !found {
		t.Error("the figures tell of no descriptors")
	}
}

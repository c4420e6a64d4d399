package recovery

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A member may have had any name. A recovery still loads the other members.
func TestALongNameStopsNoRecovery(t *testing.T) {
	path := filepath.Join(t.TempDir(), gossipFile)
	text := "alive: " + strings.Repeat("x", 1<<17) + " 10.0.0.1:7\nalive: b 10.0.0.2:7\nnot-alive: b\nalive: c 10.0.0.3:7"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	seen, err := lastSeen(path)
	if err != nil || len(seen) != 3 || seen["b"] != "10.0.0.2:7" || seen["c"] != "10.0.0.3:7" {
		t.Errorf("%d members, b at %q, c at %q, %v", len(seen), seen["b"], seen["c"], err)
	}
}

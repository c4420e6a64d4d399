//go:build linux

package load_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardway/e2e/kit/load"
)

// After a failed request, the generator sends requests for its key until one succeeds.
func TestRetryFailedSendsUntilKeyIsServed(t *testing.T) {
	var asked atomic.Int32
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("X-Shard-Key") == "bad" && asked.Add(1) <= 3 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer app.Close()
	generator := load.Start(t.Context(), load.Options{Client: newClient(t, app.Listener.Addr().String()), Rate: 1000, Keys: []string{"bad", "good"}, Prefix: "r", RetryFailed: true})
	for tick := time.NewTicker(time.Millisecond); generator.Started() < 4; {
		<-tick.C
	}
	again := 0
	for _, resp := range generator.Stop() {
		if strings.Contains(resp.ID, load.RetryMark) {
			again++
			if resp.Method != http.MethodGet || resp.Key != "bad" {
				t.Errorf("%s %s of key %q follows a failed request, want a GET for its key", resp.Method, resp.ID, resp.Key)
			}
		}
	}
	// Two requests fail, and one of the retries.
	if again != 3 {
		t.Errorf("%d requests followed failed ones, want 3", again)
	}
}

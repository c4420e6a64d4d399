package admin_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"shardway/admin"
	"shardway/admin/apitest"
)

// stalled is the response writer of a client that reads nothing until it is released.
type stalled struct {
	*httptest.ResponseRecorder
	let chan struct{}
}

func (w stalled) Write(b []byte) (int, error) {
	<-w.let
	return w.ResponseRecorder.Write(b)
}

// The number of long lists that are sent at the same time is limited. A list of all shards can have
// megabytes, and is kept while its client reads. Once, 128 clients of one address that read nothing
// used a gigabyte.
func TestFewMayReadLongListsAtOnce(t *testing.T) {
	for _, path := range []string{"/v1/shards", "/v1/owned"} {
		synctest.Test(t, func(t *testing.T) {
			h := admin.New(admin.Options{API: apitest.SetOf(owning{fake: newFake()})}).Handler()
			let := make(chan struct{})
			get := func(from string) int {
				r := httptest.NewRequest(http.MethodGet, path, nil)
				r.Host, r.RemoteAddr = "localhost", from
				w := stalled{httptest.NewRecorder(), let}
				h.ServeHTTP(w, r)
				return w.Code
			}
			var wg sync.WaitGroup
			var mu sync.Mutex
			codes := map[int]int{}
			many := func(n int, from string) {
				for range n {
					wg.Go(func() {
						code := get(from)
						mu.Lock()
						defer mu.Unlock()
						codes[code]++
					})
				}
				synctest.Wait()
			}
			many(128, "10.0.0.1:1")
			many(1, "10.0.0.2:1")
			close(let)
			wg.Wait()
			if codes[http.StatusOK] != 8+1 || codes[http.StatusServiceUnavailable] != 120 {
				t.Errorf("%s: answers %v, want 200 for eight of one address and one of another", path, codes)
			}
			if code := get("10.0.0.1:1"); code != http.StatusOK {
				t.Errorf("%s: afterwards %d", path, code)
			}
		})
	}
}

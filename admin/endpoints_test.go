package admin_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/admin/auth"
)

// changingEndpoints is a cluster whose endpoints change.
type changingEndpoints struct {
	*fake
	mu   sync.Mutex
	rows []api.Endpoint
}

func (c *changingEndpoints) Endpoints() []api.Endpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.rows)
}

func (c *changingEndpoints) add(row api.Endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rows = append(c.rows, row)
}

// watchedServer is a server in a synctest bubble, and the cluster whose endpoints it serves.
type watchedServer struct {
	t       *testing.T // of the bubble
	server  *admin.Server
	cluster *changingEndpoints
}

// withEndpoints runs f in a synctest bubble.
func withEndpoints(t *testing.T, f func(x watchedServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster := &changingEndpoints{fake: newFake(), rows: []api.Endpoint{{Node: "a", Kind: api.KindNode, Name: "http", Addr: "10.0.0.1:80"}}}
		f(watchedServer{t: t, server: admin.New(admin.Options{API: apitest.SetOf(cluster), Log: zerolog.Nop()}), cluster: cluster})
	})
}

// getEndpoints sends a request for endpoints.
func getEndpoints(ctx context.Context, server *admin.Server, query string) *httptest.ResponseRecorder {
	response := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/endpoints"+query, nil)
	request.Host = "localhost"
	server.Handler().ServeHTTP(response, request)
	return response
}

// watch sends a request for endpoints that must succeed.
func watch(t *testing.T, server *admin.Server, query string) (list api.EndpointList) {
	t.Helper()
	response := getEndpoints(t.Context(), server, query)
	if err := json.Unmarshal(response.Body.Bytes(), &list); err != nil || response.Code != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", query, response.Code, response.Body, err)
	}
	return list
}

func TestLongPollOfEndpointsWaitsForAChange(t *testing.T) {
	withEndpoints(t, func(x watchedServer) {
		t, cluster, server := x.t, x.cluster, x.server
		first := watch(t, server, "?watch=")
		if len(first.Endpoints) != 1 || first.Version == "" || watch(t, server, "").Version != first.Version {
			t.Fatalf("first: %+v", first)
		}
		began := time.Now()
		if same := watch(t, server, "?watch="+first.Version+"&wait=3s"); same.Version != first.Version || time.Since(began) != 3*time.Second {
			t.Errorf("without a change: %+v after %v", same, time.Since(began))
		}
		// A change of other endpoints than the selected ones does not end the wait.
		selected := watch(t, server, "?name=http&watch=")
		cluster.add(api.Endpoint{Node: "db", Kind: api.KindMember, Name: "sql", Addr: "10.0.0.9:5432"})
		if same := watch(t, server, "?name=http&wait=3s&watch="+selected.Version); same.Version != selected.Version {
			t.Errorf("a change of another endpoint: %+v", same)
		}
		changed := watch(t, server, "?wait=10s&watch="+first.Version)
		if len(changed.Endpoints) != 2 || changed.Version == first.Version {
			t.Errorf("after a change: %+v", changed)
		}
		time.AfterFunc(4*time.Second, func() {
			cluster.add(api.Endpoint{Node: "b", Kind: api.KindNode, Name: "http", Addr: "10.0.0.2:80"})
		})
		began = time.Now()
		if next := watch(t, server, "?wait=1h&watch="+changed.Version); len(next.Endpoints) != 3 || time.Since(began) > 5*time.Second {
			t.Errorf("a change during the wait: %+v after %v", next, time.Since(began))
		}
	})
}

// An endpoint that moves to another address, and one that disappears, end the wait. Several clients can wait at the
// same time, up to a limit.
func TestLongPollsOfEndpointsAreLimited(t *testing.T) {
	withEndpoints(t, func(x watchedServer) {
		t, cluster, server := x.t, x.cluster, x.server
		version := watch(t, server, "").Version
		responses := make(chan *httptest.ResponseRecorder, 64)
		for range cap(responses) {
			go func() { responses <- getEndpoints(t.Context(), server, "?watch="+version) }()
		}
		synctest.Wait()
		refused := 0
		for len(responses) > 0 {
			if response := <-responses; response.Code != http.StatusServiceUnavailable || !strings.Contains(response.Body.String(), "too many clients wait") {
				t.Fatalf("%d %s", response.Code, response.Body)
			}
			refused++
		}
		if refused != 32 { // the limit for one source
			t.Errorf("%d of 64 long polls were refused, want 32", refused)
		}
		cluster.mu.Lock()
		cluster.rows[0].Addr = "10.0.0.3:80"
		cluster.mu.Unlock()
		for range cap(responses) - refused {
			if response := <-responses; response.Code != http.StatusOK || !strings.Contains(response.Body.String(), "10.0.0.3:80") {
				t.Errorf("%d %s", response.Code, response.Body)
			}
		}
		version = watch(t, server, "").Version
		time.AfterFunc(time.Second, func() {
			cluster.mu.Lock()
			defer cluster.mu.Unlock()
			cluster.rows = nil
		})
		if list := watch(t, server, "?watch="+version); list.Endpoints == nil || len(list.Endpoints) != 0 || list.Version == version {
			t.Errorf("the last endpoint has disappeared: %+v", list)
		}
	})
}

func TestLongPollOfEndpointsEndsWithNodeAndAccess(t *testing.T) {
	withEndpoints(t, func(x watchedServer) {
		t, server := x.t, x.server
		for _, query := range []string{"?wait=1s", "?watch=&wait=soon", "?watch=a&watch=b"} {
			if response := getEndpoints(t.Context(), server, query); response.Code != http.StatusBadRequest {
				t.Errorf("%s: %d %s", query, response.Code, response.Body)
			}
		}
		version := watch(t, server, "").Version
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if response := getEndpoints(ctx, server, "?watch="+version); response.Code != http.StatusServiceUnavailable {
			t.Errorf("a long poll at a node that stops: %d %s", response.Code, response.Body)
		}
		time.AfterFunc(time.Second, func() { server.SetAccess(auth.Access{}) })
		if response := getEndpoints(t.Context(), server, "?watch="+version); response.Code != http.StatusServiceUnavailable {
			t.Errorf("a long poll during a change of the access rules: %d %s", response.Code, response.Body)
		}
	})
}

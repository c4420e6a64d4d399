package admin_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
	"shardway/internal/problem"
)

// locking has the lock job, and records the requests.
type locking struct{ requests []api.LockRequest }

func (l *locking) Locks(context.Context) (api.LockList, error) {
	return api.LockList{Index: 9, Locks: []api.Lock{{Name: "job", Holder: "a", Token: 7, TTL: "30s", Waiters: []string{}}}}, nil
}

func (l *locking) AcquireLock(_ context.Context, request api.LockRequest) (api.LockGrant, error) {
	l.requests = append(l.requests, request)
	if request.Holder == "b" {
		return api.LockGrant{}, problem.New(problem.LockHeld, "lock job is held by a")
	}
	return api.LockGrant{Name: request.Name, Holder: request.Holder, Token: 7, TTL: request.TTL}, nil
}

func (l *locking) RenewLock(_ context.Context, request api.LockRequest) (api.LockGrant, error) {
	l.requests = append(l.requests, request)
	return api.LockGrant{Name: request.Name, Holder: request.Holder, Token: request.Token, TTL: "30s"}, nil
}

func (l *locking) ReleaseLock(_ context.Context, request api.LockRequest) error {
	l.requests = append(l.requests, request)
	return nil
}

type lockingFake struct {
	*fake
	*locking
}

func TestLockRequestsReachTheNode(t *testing.T) {
	locks := &locking{}
	h := admin.New(admin.Options{API: apitest.SetOf(lockingFake{newFake(), locks}), Log: zerolog.Nop()}).Handler()
	for _, tc := range []struct {
		method, target, body string
		code                 int
		want                 string
		request              api.LockRequest // zero means that the node gets none
	}{
		{"GET", "/v1/locks", "", 200, `{"index":9,"locks":[{"name":"job","holder":"a","token":7,"ttl":"30s","contended":0,"waiters":[]}]}`, api.LockRequest{}},
		{"GET", "/v1/locks/job", "", 200, `"token":7`, api.LockRequest{}},
		{"GET", "/v1/locks/other", "", 404, `"other\" is free`, api.LockRequest{}},
		{"POST", "/v1/locks/job?holder=a&ttl=30s&wait=1m", "", 200, `"token":7`, api.LockRequest{Name: "job", Holder: "a", TTL: "30s", Wait: "1m"}},
		{"POST", "/v1/locks/job", `{"holder":"a","ttl":"30s"}`, 200, `"token":7`, api.LockRequest{Name: "job", Holder: "a", TTL: "30s"}},
		{"POST", "/v1/locks/job?holder=b&ttl=30s", "", 409, `lock-held`, api.LockRequest{Name: "job", Holder: "b", TTL: "30s"}},
		{"PATCH", "/v1/locks/job?holder=a&token=7", "", 200, `"token":7`, api.LockRequest{Name: "job", Holder: "a", Token: 7}},
		{"DELETE", "/v1/locks/job?holder=a&token=7", "", 200, `{"name":"job","holder":"a","token":7}`, api.LockRequest{Name: "job", Holder: "a", Token: 7}},
		{"POST", "/v1/locks/job?ttl=30s", "", 400, "holder is missing", api.LockRequest{}},
		{"POST", "/v1/locks/job?holder=a", "", 400, "ttl is missing: give a duration from 1s to 24h", api.LockRequest{}},
		{"POST", "/v1/locks/job?holder=a&ttl=30s&wait=6m", "", 400, `wait = \"6m\" is not a duration up to 5m`, api.LockRequest{}},
		{"POST", "/v1/locks/job?holder=a&ttl=30s&token=7", "", 400, "token = \\\"7\\\" is not known here: use holder, ttl, wait", api.LockRequest{}},
		{"DELETE", "/v1/locks/job?holder=a", "", 400, "token is missing", api.LockRequest{}},
		{"PATCH", "/v1/locks/job?holder=a&token=x", "", 400, "is not a whole number", api.LockRequest{}},
	} {
		locks.requests = nil
		res := fetchJSON(t, h, tc.method, tc.target, tc.body, "Content-Type", "application/json")
		if got := res.Body.String(); res.Code != tc.code || !strings.Contains(got, strings.ReplaceAll(tc.want, `\\`, `\`)) {
			t.Errorf("%s %s: %d %s, want %d %s", tc.method, tc.target, res.Code, got, tc.code, tc.want)
		}
		if reached := len(locks.requests) > 0; reached != (tc.request != api.LockRequest{}) || reached && locks.requests[0] != tc.request {
			t.Errorf("%s %s: the node got %+v, want %+v", tc.method, tc.target, locks.requests, tc.request)
		}
	}
}

func TestNodeWithoutRegistryNamesTheFlag(t *testing.T) {
	h := admin.New(admin.Options{API: apitest.SetOf(newFake()), Log: zerolog.Nop()}).Handler()
	for _, target := range []string{"/v1/locks", "/v1/locks/job"} {
		if res := fetchJSON(t, h, http.MethodGet, target, ""); res.Code != http.StatusNotFound || !strings.Contains(res.Body.String(), "start it with --registry") {
			t.Errorf("%s: %d %s", target, res.Code, res.Body)
		}
	}
}

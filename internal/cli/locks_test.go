package cli_test

import (
	"context"
	"strings"
	"testing"

	"shardway/admin/api"
	"shardway/internal/problem"
)

// lockCluster has the lock job of holder a.
type lockCluster struct {
	*policyCluster
	request api.LockRequest
}

func (c *lockCluster) Locks(context.Context) (api.LockList, error) {
	return api.LockList{Locks: []api.Lock{{Name: "job", Holder: "a", Token: 7, TTL: "30s", Contended: 2, Waiters: []string{"b", "c"}}}}, nil
}

func (c *lockCluster) AcquireLock(_ context.Context, request api.LockRequest) (api.LockGrant, error) {
	c.request = request
	if request.Holder == "b" {
		return api.LockGrant{}, problem.New(problem.LockHeld, `lock "job" is held by "a"`)
	}
	return api.LockGrant{Token: 7}, nil
}

func (c *lockCluster) RenewLock(_ context.Context, request api.LockRequest) (api.LockGrant, error) {
	c.request = request
	return api.LockGrant{Token: request.Token}, nil
}

func (c *lockCluster) ReleaseLock(_ context.Context, request api.LockRequest) error {
	c.request = request
	return nil
}

func TestLockCommandsReachTheNode(t *testing.T) {
	c := &lockCluster{policyCluster: &policyCluster{cluster: &cluster{}}}
	addr := serveCluster(t, c)
	for _, tc := range []struct {
		line string
		code int
		want string
		got  api.LockRequest
	}{
		{"lock list", 0, "LOCK HOLDER TOKEN TTL CONTENDED WAITERS job a 7 30s 2 b,c", api.LockRequest{}},
		{"lock acquire job --holder a", 0, "7", api.LockRequest{Name: "job", Holder: "a", TTL: "30s"}},
		{"lock acquire job --holder a --ttl 1m --wait 2s", 0, "7", api.LockRequest{Name: "job", Holder: "a", TTL: "1m0s", Wait: "2s"}},
		{"lock acquire job --holder b", 1, `is held by "a"`, api.LockRequest{Name: "job", Holder: "b", TTL: "30s"}},
		{"lock renew job --holder a --token 7", 0, "7", api.LockRequest{Name: "job", Holder: "a", Token: 7}},
		{"lock release job --holder a --token 7", 0, "lock job is released", api.LockRequest{Name: "job", Holder: "a", Token: 7}},
	} {
		c.request = api.LockRequest{}
		code, out, errOut := run(t, tc.line+" --admin="+addr)
		if got := strings.Join(strings.Fields(out+errOut), " "); code != tc.code || !strings.Contains(got, tc.want) || c.request != tc.got {
			t.Errorf("%s: exit %d, %q, request %+v, want %d, %q, %+v", tc.line, code, got, c.request, tc.code, tc.want, tc.got)
		}
	}
}

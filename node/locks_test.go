package node_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/internal/problem"
	"shardway/node"
	"shardway/node/recovery"
)

// threeWithRegistry runs f with a cluster of three nodes that offer the registry.
func threeWithRegistry(t *testing.T, f func(w *world)) {
	t.Helper()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.Registry = true }
		for _, name := range []string{"a", "b", "c"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		f(w)
	})
}

func (p *process) locks() api.LockService { return p.node.AdminAPI().Locks }

// acquire gets the lock job at a node, or fails the test.
func (p *process) acquire(holder, ttl, wait string) api.LockGrant {
	p.w.t.Helper()
	grant, err := p.locks().AcquireLock(p.w.t.Context(), api.LockRequest{Name: "job", Holder: holder, TTL: ttl, Wait: wait})
	if err != nil {
		p.w.t.Fatalf("%s acquires at %s: %v", holder, p.name, err)
	}
	return grant
}

func wantCode(t *testing.T, err error, code problem.Code) {
	t.Helper()
	if p, ok := errors.AsType[*problem.Problem](err); !ok || p.Code != code {
		t.Errorf("error %v, want %s", err, code)
	}
}

// Each node serves the locks, and a lock survives its leader with token and queue.
func TestLockSurvivesItsLeader(t *testing.T) {
	t.Parallel()
	threeWithRegistry(t, func(w *world) {
		leader, follower := w.leader(), w.follower()
		first := follower.acquire("one", "2m", "")
		if again := leader.acquire("one", "2m", ""); again.Token != first.Token || first.Token == 0 {
			t.Errorf("repeated acquire has token %d, want %d", again.Token, first.Token)
		}
		_, err := leader.locks().AcquireLock(w.t.Context(), api.LockRequest{Name: "job", Holder: "two", TTL: "2m"})
		wantCode(t, err, problem.LockHeld)
		granted := make(chan api.LockGrant, 2)
		for _, holder := range []string{"two", "three"} {
			go func() {
				grant, acquireErr := follower.locks().AcquireLock(w.t.Context(), api.LockRequest{Name: "job", Holder: holder, TTL: "2m", Wait: "4m"})
				if acquireErr != nil {
					t.Errorf("%s waits: %v", holder, acquireErr)
				}
				granted <- grant
			}()
			w.until(holder+" waits", func() bool {
				list, listErr := follower.locks().Locks(w.t.Context())
				return listErr == nil && len(list.Locks) == 1 && strings.HasSuffix(strings.Join(list.Locks[0].Waiters, ","), holder)
			})
		}
		leader.kill()
		w.until("another leader", func() bool { return w.leader() != nil && w.leader() != leader })
		renewed, err := follower.locks().RenewLock(w.t.Context(), api.LockRequest{Name: "job", Holder: "one", Token: first.Token})
		if err != nil || renewed.Token != first.Token {
			t.Fatalf("renew after the failure of the leader: %+v, %v", renewed, err)
		}
		release := api.LockRequest{Name: "job", Holder: "one", Token: first.Token}
		if err := follower.locks().ReleaseLock(w.t.Context(), release); err != nil {
			t.Fatal(err)
		}
		second := <-granted
		if second.Holder != "two" || second.Token <= first.Token || !second.Waited {
			t.Errorf("after the release: %+v, want two with a token above %d", second, first.Token)
		}
		wantCode(t, follower.locks().ReleaseLock(w.t.Context(), release), problem.LockNotHeld)
		// The leader ends the lock of two, which does not renew it.
		third := <-granted
		if third.Holder != "three" || third.Token <= second.Token {
			t.Errorf("after the expiry: %+v, want three with a token above %d", third, second.Token)
		}
	})
}

// A request that ends while it waits leaves the queue, and does not get the lock later.
func TestLeftRequestDoesNotGetTheLock(t *testing.T) {
	t.Parallel()
	threeWithRegistry(t, func(w *world) {
		follower := w.follower()
		first := follower.acquire("one", "1m", "")
		began := time.Now()
		_, err := follower.locks().AcquireLock(w.t.Context(), api.LockRequest{Name: "job", Holder: "two", TTL: "1m", Wait: "3s"})
		wantCode(t, err, problem.LockHeld)
		if waited := time.Since(began); waited < 3*time.Second || waited > 5*time.Second {
			t.Errorf("the request waited %v, want 3 s", waited)
		}
		ctx, leave := context.WithCancel(w.t.Context())
		time.AfterFunc(time.Second, leave)
		if _, err = follower.locks().AcquireLock(ctx, api.LockRequest{Name: "job", Holder: "three", TTL: "1m", Wait: "3m"}); err == nil {
			t.Error("the request that was cancelled got the lock")
		}
		if err = follower.locks().ReleaseLock(w.t.Context(), api.LockRequest{Name: "job", Holder: "one", Token: first.Token}); err != nil {
			t.Fatal(err)
		}
		list, err := w.leader().locks().Locks(w.t.Context())
		if err != nil || len(list.Locks) != 0 {
			t.Errorf("locks %+v, %v, want none", list.Locks, err)
		}
	})
}

// A lock that is renewed is not ended, and a lock without renewal is.
func TestOnlyRenewedLocksAreKept(t *testing.T) {
	t.Parallel()
	threeWithRegistry(t, func(w *world) {
		follower := w.follower()
		kept := follower.acquire("one", "2s", "")
		for range 6 {
			time.Sleep(time.Second)
			if _, err := follower.locks().RenewLock(w.t.Context(), api.LockRequest{Name: "job", Holder: "one", Token: kept.Token}); err != nil {
				t.Fatalf("renew: %v", err)
			}
		}
		next := follower.acquire("two", "2s", "1m") // waits until the lock has expired
		if next.Token <= kept.Token {
			t.Errorf("token %d after %d", next.Token, kept.Token)
		}
		_, err := follower.locks().AcquireLock(w.t.Context(), api.LockRequest{Name: "job", Holder: "three", TTL: "500ms"})
		if p, ok := errors.AsType[*problem.Problem](err); !ok || p.Param != "ttl" || p.Value != "500ms" {
			t.Errorf("too short a TTL: %v", err)
		}
	})
}

// The registry is part of the snapshots that a new node gets, and of backups.
func TestRegistryIsInSnapshotAndBackup(t *testing.T) {
	t.Parallel()
	threeWithRegistry(t, func(w *world) {
		grant := w.follower().acquire("one", "1h", "")
		if err := w.leader().node.TakeSnapshot(); err != nil {
			t.Fatal(err)
		}
		p := w.follower()
		p.kill()
		p.wipe()
		p.restart()
		w.until("the wiped node has the lock", func() bool {
			if !p.started() {
				return false
			}
			list, err := p.locks().Locks(w.t.Context())
			return err == nil && len(list.Locks) == 1 && list.Locks[0].Token == grant.Token
		})
		backup, err := p.node.API().Backup()
		if err != nil {
			t.Fatal(err)
		}
		described, err := recovery.Inspect(backup)
		if err != nil || described.Locks != 1 {
			t.Errorf("backup %+v, %v, want one lock", described, err)
		}
	})
}

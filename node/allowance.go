package node

import (
	"context"
	"time"

	"shardway/node/disk"
)

// ownedWait is how long GET /v1/owned waits until the time that it grants is on the disk.
const ownedWait = time.Second

// allowance bounds for how long the app may write without hearing from its node: it is never
// more than the data directory contains, so the next process of the node can wait that long.
type allowance struct {
	boot    uint64
	earlier disk.AppAllowance // of an earlier process
	value   *persisted[disk.AppAllowance]
}

// newAllowance returns nil if the app ends with this process, or if there is none.
func newAllowance(o *Options) *allowance {
	if o.Gateway || o.Proxy.Handler != nil {
		return nil
	}
	earlier, err := o.Dir.AppAllowance()
	if err != nil {
		o.Log.Warn().Err(err).Msg("app allowance not read")
		earlier = disk.AppAllowance{Boot: o.Dir.Boot() - 1, Alive: o.Timing.DeadAfter, Owned: o.Timing.DeadAfter}
	}
	return &allowance{boot: o.Dir.Boot(), earlier: earlier, value: newPersisted("app allowance", earlier, o.Dir.KeepAppAllowance, o.Log)}
}

// raise has this process allow at least so much, once that is on the disk.
func (a *allowance) raise(alive, owned time.Duration) {
	a.value.update(func(v disk.AppAllowance) disk.AppAllowance {
		if v.Boot != a.boot {
			v = disk.AppAllowance{Boot: a.boot}
		}
		v.Alive, v.Owned = max(v.Alive, wholeMillis(alive)), max(v.Owned, wholeMillis(owned))
		return v
	})
}

// stored returns what this process may allow, and a channel that is closed when that changes.
func (a *allowance) stored() (v disk.AppAllowance, changed <-chan struct{}) {
	v, changed = a.value.get()
	if v.Boot != a.boot {
		v = disk.AppAllowance{}
	}
	return v, changed
}

// wholeMillis rounds up.
func wholeMillis(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// mayWriteAlive is mayWrite for the hook alive.
func (n *Node) mayWriteAlive() (left, whole time.Duration) {
	left, whole = n.mayWrite()
	if n.allowance == nil {
		return left, whole
	}
	n.allowance.raise(whole, 0)
	stored, _ := n.allowance.stored()
	return min(left, stored.Alive), whole
}

// mayWriteOwned is mayWrite for an app that asks by GET /v1/owned. It waits for the disk, up to
// ownedWait.
func (n *Node) mayWriteOwned(ctx context.Context) time.Duration {
	left, whole := n.mayWrite()
	if n.allowance == nil || left == 0 {
		return left
	}
	n.allowance.raise(0, whole)
	limit := time.NewTimer(ownedWait)
	defer limit.Stop()
	for {
		stored, changed := n.allowance.stored()
		if stored.Owned >= whole {
			break
		}
		select {
		case <-changed:
			continue
		case <-ctx.Done():
		case <-limit.C:
		}
		break
	}
	left, _ = n.mayWrite()
	stored, _ := n.allowance.stored()
	return min(left, stored.Owned)
}

// awaitApp returns when the app has stopped writing what earlier processes of this node
// allowed. The first heartbeat of this process may have its shards taken at once, so it must
// not come before.
func (n *Node) awaitApp(ctx context.Context) {
	began := time.Now()
	var earlier disk.AppAllowance
	if n.allowance != nil {
		earlier = n.allowance.earlier
	}
	if n.liveness() != nil {
		n.stopApp(ctx, earlier)
	}
	// Nothing reaches an app that asks by GET /v1/owned.
	select {
	case <-ctx.Done():
	case <-time.After(earlier.Owned - time.Since(began)):
	}
	if earlier.Alive > 0 || earlier.Owned > 0 {
		n.allowance.raise(0, 0) // the next process must not wait for it again
	}
}

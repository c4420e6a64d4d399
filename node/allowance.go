package node

import (
	"context"
	"time"

	"shardway/node/disk"
)

// ownedWait is how long GET /v1/owned waits until the granted time is stored on the disk.
const ownedWait = time.Second

// allowance limits how long the app may write without contact to its node. A time is granted only after it
// was stored in the data directory. So after a crash, the next process of the node can wait until the
// granted time has passed.
type allowance struct {
	boot    uint64                        // number of this process, see disk.Dir.Boot
	earlier disk.AppAllowance             // times that an earlier process has granted
	value   *persisted[disk.AppAllowance] // times that this process may grant
}

// newAllowance returns the allowance of this process. It returns nil if the app runs in this process, and
// for a gateway, which has no app.
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

// raise schedules higher limits to be stored: alive is the limit of the hook alive, and owned the limit of
// GET /v1/owned. Limits of this process never decrease.
func (a *allowance) raise(alive, owned time.Duration) {
	a.value.update(func(v disk.AppAllowance) disk.AppAllowance {
		if v.Boot != a.boot {
			v = disk.AppAllowance{Boot: a.boot}
		}
		v.Alive, v.Owned = max(v.Alive, wholeMillis(alive)), max(v.Owned, wholeMillis(owned))
		return v
	})
}

// stored returns the times that this process may grant because they are on the disk, and a channel that is
// closed when they change.
func (a *allowance) stored() (v disk.AppAllowance, changed <-chan struct{}) {
	v, changed = a.value.get()
	if v.Boot != a.boot {
		v = disk.AppAllowance{}
	}
	return v, changed
}

// wholeMillis rounds d up to whole milliseconds, the unit of the data directory.
func wholeMillis(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// mayWriteAlive returns the results of mayWrite for the hook alive. left is at most the time that is stored
// on the disk.
func (n *Node) mayWriteAlive() (left, whole time.Duration) {
	left, whole = n.mayWrite()
	if n.allowance == nil {
		return left, whole
	}
	n.allowance.raise(whole, 0)
	stored, _ := n.allowance.stored()
	return min(left, stored.Alive), whole
}

// mayWriteOwned returns how long an app that sends GET /v1/owned may still write. It waits up to ownedWait
// until that time is stored on the disk.
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

// awaitApp returns when the permissions to write that earlier processes of this node have granted to the
// app are revoked or have expired. This process must not send a heartbeat before: after the first one, the
// leader may give the shards of the previous process to other nodes at once.
func (n *Node) awaitApp(ctx context.Context) {
	began := time.Now()
	var earlier disk.AppAllowance
	if n.allowance != nil {
		earlier = n.allowance.earlier
	}
	if n.liveness() != nil {
		n.stopApp(ctx, earlier)
	}
	// The node cannot call an app that uses GET /v1/owned, so it waits for the granted time.
	select {
	case <-ctx.Done():
	case <-time.After(earlier.Owned - time.Since(began)):
	}
	if earlier.Alive > 0 || earlier.Owned > 0 {
		n.allowance.raise(0, 0) // replaces the earlier times, so that the next process does not wait again
	}
}

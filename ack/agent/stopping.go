package agent

import "time"

// voidLease ends the lease of a node that is stopping or whose boot is being replaced.
func (a *Agent) voidLease(obs Observation) {
	if a.supersedingBoot != 0 {
		a.holder.Void()
		return
	}
	if !obs.Stopping {
		return
	}
	if leaseEnd, hasLease := a.holder.LeaseEnd(); hasLease {
		a.voidedLeaseEnd = leaseEnd
	}
	a.holder.Void()
}

// beginRestart publishes, once, that the shards of this node wait for its next process.
func (a *Agent) beginRestart(obs Observation) {
	if obs.Stopping && obs.RestartWithin > 0 && !a.restarting {
		a.restarting = true
		a.publishRouting(a.follower.State())
	}
}

// raiseBoot continues under a higher boot once no request and no hook call of the current boot
// runs. The leader infers from a higher boot that the previous one has stopped serving.
func (a *Agent) raiseBoot() {
	if a.supersedingBoot == 0 {
		return
	}
	if !a.abortAll(AbortNewBoot) {
		return
	}
	if a.hooks != nil && !a.hooks.stopCalls() {
		return
	}
	boot, ok := a.options.RaiseBoot(a.supersedingBoot)
	if !ok {
		return
	}
	a.holder.Reboot(boot)
	if a.hooks != nil {
		a.hooks.reboot(boot)
		a.publishRouting(a.follower.State())
	}
	a.supersedingBoot, a.nextHeartbeat = 0, 0
}

// finishStopping stops the node permanently once no request runs and its app has released the
// remaining shards. The node then sends a goodbye, and the leader gives its shards to other
// nodes.
func (a *Agent) finishStopping(now time.Duration, obs Observation) {
	if !obs.Stopping || a.stopped {
		return
	}
	if a.stoppingSince == 0 {
		a.stoppingSince = now
	}
	// The shards of a restarting node do not move, so its requests get the drain timeout.
	mayDrain := obs.RestartWithin > 0 && now-a.stoppingSince < a.options.Pace.DrainTimeout
	if mayDrain && a.options.Gate.CountRunning(noShard) > 0 {
		return
	}
	if !a.abortAll(AbortGoodbye) {
		return
	}
	if !a.hooksReadyToStop(now) {
		return
	}
	a.stopped, a.nextHeartbeat = true, 0
}

// hooksReadyToStop reports whether the app has released all shards.
func (a *Agent) hooksReadyToStop(now time.Duration) bool {
	if a.hooks == nil {
		return true
	}
	previousDigest := a.hooks.delivery.digest
	ready := a.hooks.readyToStop(now, a.follower.Acked())
	if !ready && a.hooks.delivery.digest != previousDigest {
		a.nextHeartbeat = 0 // report the digest to the leader
	}
	return ready
}

// abortAll aborts all running requests. It returns true once no request is running.
func (a *Agent) abortAll(reason AbortReason) bool {
	if a.options.Gate.CountRunning(noShard) == 0 {
		return true
	}
	a.options.Gate.AbortRequests(reason, noShard)
	return false
}

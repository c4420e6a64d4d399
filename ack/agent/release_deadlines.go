package agent

import (
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// ReleaseTimeout consists of three parts, in this order: release calls, lost calls for the shards
// that could not be released, and the delivery of the release notes to the leader. A map change or
// a goodbye waits for each part, but not longer.

const (
	// maxAttempt is the maximum timeout of one release call or one lost call.
	maxAttempt = 2 * time.Second
	// If a shard could not be released, a lost call makes the app drop it. The last
	// 1/lostCallFraction of ReleaseTimeout is reserved for these calls, and at least
	// minLostCallReserve, which suffices for one or two polls on a busy machine. The reserve is
	// never more than half of ReleaseTimeout.
	lostCallFraction   = 8
	minLostCallReserve = 100 * time.Millisecond
	// lostCallRetryTime is how long lost calls for a shard are retried.
	lostCallRetryTime = time.Minute
)

// releaseDeadlines holds when the node stops waiting for its app: with the acknowledgement of the
// open proposal, and with its goodbye.
type releaseDeadlines struct {
	ownTimeout time.Duration // HookOptions.ReleaseTimeout

	// Inputs of the last update. drain contains the options of the drain of this node. The zero
	// value means that the node is not being drained, or that it is stopping.
	drain           ack.DrainOptions
	draining        bool // the node has not acknowledged the open proposal yet
	stopping        bool
	restartsInPlace bool

	drainEpoch shardmap.Epoch // the proposal to which release refers
	release    time.Duration  // when the acknowledgement stops waiting; zero means that requests of moving shards still run
	goodbye    time.Duration  // when the goodbye stops waiting; zero means not set
}

// setInputs stores the inputs of an update. It returns true if the node drains for a new proposal,
// which gets its own deadline.
func (rd *releaseDeadlines) setInputs(inputs hookInputs, node shardmap.NodeID) (isNewProposal bool) {
	rd.stopping, rd.restartsInPlace = inputs.stopping, inputs.restartsInPlace
	rd.draining = inputs.drainingEpoch != 0
	rd.drain = ack.DrainOptions{}
	if !rd.stopping {
		rd.drain = inputs.state.Policy().DrainOptions[node]
	}
	isNewProposal = rd.draining && inputs.drainingEpoch != rd.drainEpoch
	if isNewProposal {
		rd.drainEpoch, rd.release = inputs.drainingEpoch, 0
	}
	return isNewProposal
}

// timeout returns the release timeout in force.
func (rd *releaseDeadlines) timeout() time.Duration {
	if rd.drain.ReleaseTimeout > 0 {
		return rd.drain.ReleaseTimeout
	}
	return rd.ownTimeout
}

// attemptTimeout returns the timeout of one release call. An operator who sets the release
// timeout of a drain has a slow app, so one call may take half of it.
func (rd *releaseDeadlines) attemptTimeout() time.Duration {
	return min(max(maxAttempt, rd.drain.ReleaseTimeout/2), rd.timeout())
}

// lostCallReserve returns the part of the release timeout that is reserved for lost calls.
func (rd *releaseDeadlines) lostCallReserve() time.Duration { return lostCallReserve(rd.timeout()) }

// lostCallReserve returns the part of the given release timeout that is reserved for lost calls.
func lostCallReserve(releaseTimeout time.Duration) time.Duration {
	minimum := min(minLostCallReserve, releaseTimeout/2)
	return max(releaseTimeout/lostCallFraction, minimum)
}

// deliveryReserve returns the part of the release timeout that is reserved for delivering the
// release notes to the leader.
func (rd *releaseDeadlines) deliveryReserve() time.Duration {
	return ack.NoteDeliveryTime(rd.timeout())
}

// startRelease starts the time for releases when the last request of a moving shard has ended. It
// returns false if the time has already started.
func (rd *releaseDeadlines) startRelease(now time.Duration) (started bool) {
	if rd.release != 0 {
		return false
	}
	rd.release = now + rd.timeout() - rd.deliveryReserve()
	return true
}

// startLeaveNotice starts the time for a goodbye when the last request of the stopping node has
// ended. It returns false if the time has already started. The next process of a node that restarts
// in place needs the release notes, so part of that time is for their delivery.
func (rd *releaseDeadlines) startLeaveNotice(now time.Duration) (started bool) {
	if rd.goodbye != 0 {
		return false
	}
	rd.goodbye = now + rd.timeout()
	if rd.restartsInPlace {
		rd.goodbye -= rd.deliveryReserve()
	}
	return true
}

// callDeadline returns when the calls about a shard that the node gives up must end. Running calls
// are cancelled then, and no call starts until the node has acknowledged. An acknowledgement waits
// only for moving shards, and not longer if the node is also stopping.
func (rd *releaseDeadlines) callDeadline(moves bool) time.Duration {
	if moves {
		return min(rd.acknowledgeDeadline(), rd.stopDeadline())
	}
	return rd.stopDeadline()
}

// acknowledgeDeadline returns when an acknowledgement stops waiting for the app.
func (rd *releaseDeadlines) acknowledgeDeadline() time.Duration {
	return deadlineOrNever(!rd.draining, rd.release)
}

// stopDeadline returns when a goodbye stops waiting for the app.
func (rd *releaseDeadlines) stopDeadline() time.Duration {
	return deadlineOrNever(!rd.stopping, rd.goodbye)
}

// deadlineOrNever returns the deadline, or never if there is none: disabled is set,
// or the deadline is zero because requests still run.
func deadlineOrNever(disabled bool, deadline time.Duration) time.Duration {
	if disabled || deadline == 0 {
		return never
	}
	return deadline
}

// deliveryDeadline returns when the node stops waiting for the confirmation of releases that it
// begins to send now.
func (rd *releaseDeadlines) deliveryDeadline(now time.Duration) time.Duration {
	deadline := max(now, rd.release+rd.deliveryReserve(), rd.goodbye)
	if rd.restartsInPlace { // a later leader also gets the acknowledgement after the goodbye
		deadline = max(deadline, rd.goodbye+rd.deliveryReserve(), now+rd.deliveryReserve())
	}
	return deadline
}

// nextAfter returns the next end of the release calls or of the lost calls; never if there is none.
func (rd *releaseDeadlines) nextAfter(now time.Duration) time.Duration {
	next := never
	for _, lostCallsEnd := range [...]time.Duration{rd.acknowledgeDeadline(), rd.stopDeadline()} {
		releasesEnd := lostCallsEnd - rd.lostCallReserve()
		for _, at := range [...]time.Duration{releasesEnd, lostCallsEnd} {
			if at > now {
				next = min(next, at)
			}
		}
	}
	return next
}

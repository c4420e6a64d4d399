package agent

import (
	"shardway/ack"
	"shardway/shardmap"
)

// nodeProcess identifies this process of the node. It decides which release notes in the log are
// valid for this process, and which shards an earlier process of the node may have served.
type nodeProcess struct {
	node   shardmap.NodeID
	server string // Raft server id: node/disk
	boot   uint64

	hadLease bool // this boot has had a lease, and firstLeaseEpoch is set
	// firstLeaseEpoch is the last proposal at the first lease of this boot. An earlier process may
	// have served shards that the node has owned since that epoch or an earlier one.
	firstLeaseEpoch shardmap.Epoch
	// restartIndex is the index of the last restart entry that a leader has reported. Until
	// this node has applied that entry, its state may lack the releases of its previous process.
	restartIndex uint64
}

// recordLease sets firstLeaseEpoch at the first lease of this boot. A lease proves that this node
// has applied the last proposal or the committed map. No earlier process owned a shard under a later
// epoch.
func (np *nodeProcess) recordLease(state *ack.State) {
	if !np.hadLease {
		np.hadLease, np.firstLeaseEpoch = true, state.Proposed().Epoch()
	}
}

// reboot begins another boot of the same process.
func (np *nodeProcess) reboot(boot uint64) {
	np.boot, np.hadLease, np.firstLeaseEpoch = boot, false, 0
}

// recordRestartIndex records the restart index of a leader.
func (np *nodeProcess) recordRestartIndex(index uint64) {
	np.restartIndex = max(np.restartIndex, index)
}

// mayHaveServedBefore reports whether an earlier process of this node may have served a shard under the
// given ownership epoch.
func (np *nodeProcess) mayHaveServedBefore(epoch shardmap.Epoch) bool {
	return epoch <= np.firstLeaseEpoch
}

// hasPreviousReleases reports whether the state contains the releases of the previous process of
// this node, which an acquire call must contain. epoch is the ownership epoch of the shard.
func (np *nodeProcess) hasPreviousReleases(state *ack.State, epoch shardmap.Epoch) bool {
	isBehind := state.RestartsIndex() < np.restartIndex
	return !np.mayHaveServedBefore(epoch) || !isBehind
}

// inheritedNote returns the note of the release before the given ownership epoch, and the instance that
// released the shard, as shardmap.InstanceID does. ok is true only if the state of the app to which the note refers is certainly
// unchanged: the release was recorded for this disk, and neither this process nor an earlier one can
// have served the shard under that epoch.
func (np *nodeProcess) inheritedNote(state *ack.State, shard shardmap.Shard, held *heldShard, epoch shardmap.Epoch) (note []byte, from shardmap.NodeID, ok bool) {
	if held.served && held.epoch == epoch {
		return nil, "", false // the app may have changed the state
	}
	previousOwner := state.PreviousOwner(shard)
	if kept, ok := np.keptRelease(state, shard); ok {
		if kept.PassedOn {
			return kept.Note, previousOwner, true
		}
		return kept.Note, state.Committed().OwnerInstanceID(shard), true
	}
	if note, ok := np.movedNote(state, shard, epoch); ok {
		return note, previousOwner, true
	}
	return nil, "", false
}

// keptRelease returns the release of the shard by the previous process of this node, which has
// restarted in place. ok is false if another process may have served the shard since, because only
// the next boot on the same disk is certain to be the next process.
func (np *nodeProcess) keptRelease(state *ack.State, shard shardmap.Shard) (kept ack.KeptRelease, ok bool) {
	kept, ok = state.KeptRelease(shard)
	isNextProcess := kept.Server == np.server && np.boot == kept.Boot+1
	return kept, ok && isNextProcess
}

// movedNote returns the note with which the previous owner released the shard. ok is false if it did
// not, or if an earlier process of this node may have owned the shard under the given ownership
// epoch.
func (np *nodeProcess) movedNote(state *ack.State, shard shardmap.Shard, epoch shardmap.Epoch) (note []byte, ok bool) {
	note, server, ok := state.ReleaseNote(shard)
	isFirstProcess := np.hadLease && !np.mayHaveServedBefore(epoch)
	return note, ok && server == np.server && isFirstProcess
}

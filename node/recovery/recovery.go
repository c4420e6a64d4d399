package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node/clusterid"
	"shardway/node/consensus"
	"shardway/node/disk"
	"shardway/registry"
)

// ErrUnconfirmed reports that Options.Confirm is not the ID of the cluster to give up.
var ErrUnconfirmed = errors.New("recovery: not confirmed")

// Options contains the parameters of Recover and Restore.
type Options struct {
	// Data is the data directory.
	Data string
	// Node is the node ID for Restore. The default is the ID that the data directory contains, or a random one.
	Node string
	// Confirm must be the ID of the cluster that Recover gives up.
	Confirm string
	// MinEpoch is the highest epoch that was used, if the operator knows it. All new epochs are higher.
	// Zero means unknown.
	MinEpoch uint64
	// Reachable reports whether a process listens at a gossip address. If it is nil, Recover does not check whether
	// the other nodes are gone.
	Reachable func(addr string) bool
	// Now is the time from which the floor is computed. Zero means the current time.
	Now time.Time
	// Log receives the messages of the Raft library.
	Log zerolog.Logger
}

// Result describes the new cluster.
type Result struct {
	Node          string `json:"node"`
	Cluster       string `json:"cluster"`
	FormerCluster string `json:"former"` // ID of the cluster that was recovered
	Shards        int    `json:"shards"`
	MinEpoch      uint64 `json:"floor"`
	// BackupDir is the path of the previous state of the data directory, or empty if there was none.
	BackupDir string `json:"kept,omitempty"`
}

// ReadSurvivor returns the state of the cluster in a data directory. It modifies only the boot number.
func ReadSurvivor(data string, log zerolog.Logger) (Survivor, error) {
	dir, err := openUsed(data)
	if err != nil {
		return Survivor{}, err
	}
	survivor, err := readSurvivor(dir, log)
	return survivor, errors.Join(err, dir.Close())
}

// Recover makes the node of a data directory the only node of a new cluster, which continues with the state
// at the end of this node's log.
func Recover(o Options) (_ Result, err error) {
	dir, err := openUsed(o.Data)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	survivor, err := readSurvivor(dir, o.Log)
	if err != nil {
		return Result{}, err
	}
	if o.Confirm != survivor.Cluster {
		return Result{}, fmt.Errorf("%w: the data directory %q belongs to cluster %s, --confirm is %q", ErrUnconfirmed, o.Data, survivor.Cluster, o.Confirm)
	}
	if o.Reachable != nil {
		if err := checkOthersGone(o.Data, survivor.Node, o.Reachable); err != nil {
			return Result{}, err
		}
	}
	return foundCluster(dir, o, survivor.state, survivor.registry, survivor.Index, survivor.Term)
}

// Restore makes a node the only node of a new cluster, which continues with the state in a backup. The data
// directory must not belong to a cluster.
func Restore(o Options, backup []byte) (_ Result, err error) {
	state, encoded, err := ack.OpenBackupWithRegistry(backup)
	if err != nil {
		return Result{}, err
	}
	saved, err := registry.Decode(encoded)
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ack.ErrNoBackup, err)
	}
	dir, err := disk.OpenRepair(o.Data, o.Node)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	isUsed, err := dir.IsUsed()
	if err != nil {
		return Result{}, err
	}
	if isUsed {
		return Result{}, fmt.Errorf("recovery: the data directory %q is in use by a cluster already: restore into an empty one, or continue with its contents by `shardway recover`", o.Data)
	}
	return foundCluster(dir, o, state, saved, max(state.MaxIndex(), saved.Index()), state.ProposedTerm())
}

// foundCluster writes the data directory of the new cluster, which continues with the state and the registry of the old
// cluster. index and term are the last known ones of the old cluster.
func foundCluster(dir *disk.Dir, o Options, state *ack.State, saved *registry.State, index, term uint64) (Result, error) {
	now := o.Now
	if now.IsZero() {
		now = time.Now()
	}
	result := Result{Node: dir.Node(), FormerCluster: state.ClusterID(), Shards: state.Shards(), MinEpoch: minimumEpoch(now, max(index, state.MaxIndex()), o.MinEpoch)}
	result.Cluster = clusterid.Recovered(state.ClusterID(), result.MinEpoch)
	recovered, err := state.Recovered(result.Cluster, result.MinEpoch)
	if err != nil {
		return Result{}, err
	}
	snapshot, err := recovered.MarshalWithRegistry(saved.Recovered().Marshal())
	if err != nil {
		return Result{}, err
	}
	result.BackupDir, err = dir.BootstrapCluster(disk.NewCluster{
		Cluster: result.Cluster, Shards: result.Shards, Stores: disk.StoreOptions{Log: o.Log},
		Write: func(disk string, stores *disk.Stores) error {
			return consensus.InitStores(stores, consensus.ServerID(result.Node, disk), snapshot, result.MinEpoch, term+1)
		},
	})
	if result.BackupDir != "" {
		result.BackupDir = filepath.Join(o.Data, result.BackupDir)
	}
	return result, err
}

// minimumEpoch returns the index at which the new log starts. It is higher than all epochs that the old cluster may
// have used. lastIndex is the last known index of the old log. See the package documentation.
func minimumEpoch(now time.Time, lastIndex, minEpoch uint64) uint64 {
	minimum := lastIndex + ack.MinIndexGap
	if minEpoch > 0 {
		minimum = max(minimum, minEpoch+1)
	}
	unixMilliseconds := uint64(max(now.UnixMilli(), 0))
	return max(minimum, unixMilliseconds)
}

// openUsed opens a data directory, which must exist and belong to a cluster.
func openUsed(data string) (*disk.Dir, error) {
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("recovery: data directory %q does not exist: set --data", data)
	}
	dir, err := disk.OpenRepair(data, "")
	if err != nil {
		return nil, err
	}
	isUsed, err := dir.IsUsed()
	if err == nil && !isUsed {
		err = fmt.Errorf("recovery: the data directory %q belongs to no cluster: there is nothing to recover; name another one with --data", data)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

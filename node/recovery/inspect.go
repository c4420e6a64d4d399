package recovery

import (
	"fmt"

	"shardway/ack"
	"shardway/registry"
)

// Backup describes the cluster of a backup. Epoch is the epoch of the committed map in it.
type Backup struct {
	Cluster string `json:"cluster"`
	Shards  int    `json:"shards"`
	Epoch   uint64 `json:"epoch"`
	// Locks is the number of locks that are held. A restored cluster has none of them.
	Locks int `json:"locks"`
}

// Inspect checks the content of a backup file and describes it.
func Inspect(content []byte) (Backup, error) {
	s, encoded, err := ack.OpenBackupWithRegistry(content)
	if err != nil {
		return Backup{}, err
	}
	saved, err := registry.Decode(encoded)
	if err != nil {
		return Backup{}, fmt.Errorf("%w: %w", ack.ErrNoBackup, err)
	}
	locks, _ := saved.Counts()
	return Backup{Locks: locks, Cluster: s.ClusterID(), Shards: s.Shards(), Epoch: uint64(s.Committed().Epoch())}, nil
}

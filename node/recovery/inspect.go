package recovery

import "shardway/ack"

// Backup describes the cluster of a backup. Epoch is the epoch of the committed map in it.
type Backup struct {
	Cluster string `json:"cluster"`
	Shards  int    `json:"shards"`
	Epoch   uint64 `json:"epoch"`
}

// Inspect checks the content of a backup file and describes it.
func Inspect(content []byte) (Backup, error) {
	s, err := ack.OpenBackup(content)
	if err != nil {
		return Backup{}, err
	}
	return Backup{Cluster: s.ClusterID(), Shards: s.Shards(), Epoch: uint64(s.Committed().Epoch())}, nil
}

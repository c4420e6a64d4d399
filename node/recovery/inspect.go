package recovery

import "shardway/ack"

// Backup is what a backup says about its cluster.
type Backup struct {
	Cluster string `json:"cluster"`
	Shards  int    `json:"shards"`
	Epoch   uint64 `json:"epoch"`
}

// Inspect checks the content of a file and returns what it is a backup of.
func Inspect(content []byte) (Backup, error) {
	s, err := ack.OpenBackup(content)
	if err != nil {
		return Backup{}, err
	}
	return Backup{Cluster: s.Cluster(), Shards: s.Shards(), Epoch: uint64(s.Committed().Epoch())}, nil
}

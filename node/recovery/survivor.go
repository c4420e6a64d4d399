package recovery

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node/consensus"
	"shardway/node/disk"
	"shardway/shardmap"
)

// Survivor describes the state of the cluster in a data directory. Among several survivors, the one with the
// highest Entry, and then the highest Index, has the newest state.
type Survivor struct {
	Node    string `json:"node"`
	Cluster string `json:"cluster"`
	Shards  int    `json:"shards"`
	// Index and Entry are the index and the term of the last entry in the log. Term is the newest term of
	// the node.
	Index uint64 `json:"index"`
	Entry uint64 `json:"entry_term"`
	Term  uint64 `json:"term"`
	// Epoch is the epoch of the last map that is committed according to the log.
	Epoch uint64 `json:"epoch"`
	// Peers contains all nodes of the last Raft configuration and of that map.
	Peers []Peer `json:"nodes"`

	state *ack.State
}

// Peer is one node of the old cluster. Here means that it is the node of the data directory.
type Peer struct {
	ID     string `json:"id"`
	Voter  bool   `json:"voter"`
	Shards int    `json:"shards"`
	Here   bool   `json:"here"`
}

// readSurvivor reads the log of an open data directory.
func readSurvivor(d *disk.Dir, log zerolog.Logger) (Survivor, error) {
	s, err := d.OpenStores(disk.StoreOptions{Log: log})
	if err != nil {
		return Survivor{}, err
	}
	r := &replay{state: ack.NewState()}
	at, err := consensus.Replay(s, r)
	if err != nil {
		return Survivor{}, err
	}
	if !r.state.Bootstrapped() {
		return Survivor{}, fmt.Errorf("recovery: node %q has no entry of its cluster in its log: recover another survivor", d.Node())
	}
	v := Survivor{
		Node: d.Node(), Cluster: r.state.ClusterID(), Shards: r.state.Shards(), Index: at.LastIndex, Entry: at.LastEntryTerm, Term: max(at.CurrentTerm, at.LastEntryTerm),
		Epoch: uint64(r.state.Committed().Epoch()), state: r.state,
	}
	v.Peers = peers(at.Servers, r.state.Committed(), d.Node())
	return v, nil
}

// peers returns the nodes of servers and of the map m, sorted by ID. here is the node of the data directory.
func peers(servers []consensus.Server, m *shardmap.Map, here string) []Peer {
	known := map[string]Peer{}
	for _, s := range servers {
		known[s.Node()] = Peer{Voter: s.Voter}
	}
	for _, mb := range m.Members() {
		p := known[string(mb.ID)]
		p.Shards = m.ShardCount(mb.ID)
		known[string(mb.ID)] = p
	}
	all := make([]Peer, 0, len(known))
	for id, p := range known {
		p.ID, p.Here = id, id == here
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// replay is the replicated state while survey reads a log.
type replay struct{ state *ack.State }

var _ consensus.FSM = (*replay)(nil)

// Apply applies an entry. It returns an error if the entry is invalid, which ends the replay.
func (r *replay) Apply(index, term uint64, data []byte) any {
	s, _, err := r.state.Apply(index, term, data)
	if err != nil {
		return err
	}
	r.state = s
	return nil
}

// Snapshot returns the encoded state.
func (r *replay) Snapshot() ([]byte, error) { return r.state.MarshalBinary() }

// Restore replaces the state by that of a snapshot.
func (r *replay) Restore(b []byte) error {
	s, err := ack.DecodeState(b)
	if err == nil {
		r.state = s
	}
	return err
}

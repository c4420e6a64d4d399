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

// Survivor is what a data directory knows of its cluster. Of several, the one
// with the highest Entry and then Index knows most.
type Survivor struct {
	Node    string `json:"node"`
	Cluster string `json:"cluster"`
	Shards  int    `json:"shards"`
	// Index and Entry are the index and the term of the last entry in its log,
	// Term is the latest that it took part in.
	Index uint64 `json:"index"`
	Entry uint64 `json:"entry_term"`
	Term  uint64 `json:"term"`
	// Epoch is that of the last map that was committed as far as it knows.
	Epoch uint64 `json:"epoch"`
	// Peers are all nodes of the last configuration or of that map.
	Peers []Peer `json:"nodes"`

	state *ack.State
}

// Peer is one node of the former cluster.
type Peer struct {
	ID     string `json:"id"`
	Voter  bool   `json:"voter"`
	Shards int    `json:"shards"`
	Here   bool   `json:"here"`
}

// survey reads the log of an open directory.
func survey(d *disk.Dir, log zerolog.Logger) (Survivor, error) {
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
		return Survivor{}, fmt.Errorf("recovery: node %q has not heard of its cluster's birth: its log says nothing; recover another survivor", d.Node())
	}
	v := Survivor{
		Node: d.Node(), Cluster: r.state.Cluster(), Shards: r.state.Shards(), Index: at.Index, Entry: at.Entry, Term: max(at.Term, at.Entry),
		Epoch: uint64(r.state.Committed().Epoch()), state: r.state,
	}
	v.Peers = peers(at.Servers, r.state.Committed(), d.Node())
	return v, nil
}

func peers(servers []consensus.Server, m *shardmap.Map, here string) []Peer {
	known := map[string]Peer{}
	for _, s := range servers {
		known[s.Node()] = Peer{Voter: s.Voter}
	}
	for _, mb := range m.Members() {
		p := known[string(mb.ID)]
		p.Shards = m.Count(mb.ID)
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

// replay is the replicated state while a log is read.
type replay struct{ state *ack.State }

var _ consensus.FSM = (*replay)(nil)

// Apply takes an entry. An error is the answer, and ends the reading.
func (r *replay) Apply(index, term uint64, data []byte) any {
	s, _, err := r.state.Apply(index, term, data)
	if err != nil {
		return err
	}
	r.state = s
	return nil
}

// Snapshot returns the whole state.
func (r *replay) Snapshot() ([]byte, error) { return r.state.MarshalBinary() }

// Restore takes the state of a snapshot.
func (r *replay) Restore(b []byte) error {
	s, err := ack.DecodeState(b)
	if err == nil {
		r.state = s
	}
	return err
}

package gossip

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"
)

// recordPause is the least time between two writes of the record: many members come at once.
const recordPause = 500 * time.Millisecond

// keptWithin is how long the end of a node waits for the last write of the record.
const keptWithin = 3 * time.Second

// keeping writes the record when it has changed, and once more at the end.
func (g *Gossip) keeping() {
	well := true
	keep := func() bool {
		wrote, err := g.record.keep(g.lamport())
		if err != nil && well {
			g.log.Warn().Err(err).Str("file", g.record.path).Msg("members seen not written: after a restart this node asks only its join addresses")
		}
		well = err == nil
		return wrote
	}
	defer keep()
	for {
		select {
		case <-g.record.changed:
		case <-g.serf.ShutdownCh():
			return
		}
		if !keep() {
			continue
		}
		select {
		case <-time.After(recordPause):
		case <-g.serf.ShutdownCh():
			return
		}
	}
}

// lamport returns the latest time of Serf's clock that was used.
func (g *Gossip) lamport() uint64 {
	n, err := strconv.ParseUint(g.serf.Stats()["member_time"], 10, 64)
	if err != nil || n == 0 {
		return 0
	}
	return n - 1
}

// witness sets Serf's clock to no less than it was in an earlier life: what this member says of
// itself must be later than what it said then, also where the first that it meets have seen
// less of that than others. It is said to Serf as by another member, in an exchange of state
// that tells of nothing else.
func witness(d memberlist.Delegate, clock uint64) {
	if clock == 0 {
		return
	}
	const exchange = "\x02\x81\xa5LTime\xcf" // MessagePack: of this kind, {"LTime": uint64}
	d.MergeRemoteState(binary.BigEndian.AppendUint64([]byte(exchange), clock+1), false)
}

// rejoin asks those who were there last, in random order, until one has answered.
func (g *Gossip) rejoin(ctx context.Context, last []sight) {
	for _, s := range shuffled(last) {
		if ctx.Err() != nil {
			return
		}
		if s.name == g.o.Name || s.addr == g.self || strings.Contains(s.name, "/") { // which memberlist takes for another address
			continue
		}
		_, err := g.serf.Memberlist().Join([]string{s.name + "/" + s.addr.String()})
		g.log.Debug().Err(err).Str("peer", s.name).Stringer("addr", s.addr).Msg("member of before asked")
		if err == nil {
			return
		}
	}
}

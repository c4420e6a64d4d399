package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"shardway/admin"
	"shardway/node/logs"
	"shardway/node/rotation"
	"shardway/peer"
)

const (
	viewTimeout    = 250 * time.Millisecond
	controlTimeout = 10 * time.Second
	maxControl     = 1 << 20
	// lineTimeout bounds the time between two questions of one stream. Followers ask the leader every
	// 2 to 4 s, in clusters of a hundred nodes twice as seldom.
	lineTimeout = time.Minute
)

// The questions that nodes ask each other on control streams, each a frame of JSON, as its reply
// is. Nodes of earlier versions end a stream after one.
const (
	askViews   = "views"   // of the leader: what it knows of the nodes
	askDo      = "do"      // of the leader: carry an action out
	askLeave   = "leave"   // of the leader: take my server out of the configuration
	askFound   = "found"   // of a fresh node: may I found the cluster?
	askFounder = "founder" // of a node that was promised so: are you at it, or have you?
	askTwin    = "twin"    // of any node: does another process speak under my id?
	askTiming  = "timing"  // of the leader: change the timing
	askLevel   = "level"   // of the leader: show the level in force, or, if firm, raise it
	askWho     = "who"     // of any process: which one is it?
	askRelease = "release" // of the leader: take what I give up shards with

	askImplicated = "implicated" // of the leader: take note of what was under way at processes that broke
	askLoad       = "load"       // of any node: what is it busy with?
	askPlan       = "plan"       // of the leader: what would the next map move?
	askReport     = "report"     // of any node: what does it say of itself? Firm: which ports does it not reach?
	askRunning    = "running"    // of any node: what runs at its app?
	askDrain      = "drain"      // of any node: how far is its drain?
	askIdle       = "idle"       // of any node: which of your shards are idle?
	askSuspects   = "suspects"   // of the leader: which keys may have ended them?
	askSockets    = "sockets"    // of any node: which shards have sockets at you?
	askBreak      = "break"      // of any node: break legs of kept sockets
	askForget     = "forget"     // by the leader: show a node no more that was removed
	askMissing    = "missing"    // of a voter: does it miss its leader?
	askSettings   = "settings"   // of the leader: these are my settings; which differ between nodes?
	askReachable  = "reachable"  // of any node: do you reach my peer port?
	askUnadded    = "unadded"    // of the leader: which nodes are not added because their peer ports are not reached?
	askSeveral    = "several"    // of any node: the replies to several questions
)

// asker is who asks on a control stream.
type asker struct {
	node, server string
	// binding tells this stream from all others; see secret.Conn.
	binding func() ([]byte, error)
}

type request struct {
	What   string          `json:"what"`
	Action admin.Action    `json:"action,omitzero"`
	Server string          `json:"server,omitempty"` // askForget: a node
	Proven rotation.Proven `json:"proven,omitzero"`
	Timing admin.Timing    `json:"timing,omitzero"`
	By     string          `json:"by,omitempty"`
	Nonce  uint64          `json:"nonce,omitempty"`
	Firm   bool            `json:"firm,omitempty"`
	// Releases are as ack encodes them.
	Releases []byte `json:"releases,omitempty"`

	Implicated []implication `json:"implicated,omitempty"`

	Break admin.SocketBreak `json:"break,omitzero"`

	Settings map[string]string `json:"settings,omitempty"`
	// Question of askIdle is about a staged change; nil: the node is being emptied.
	Question *stageQuestion `json:"question,omitempty"`

	Several []request `json:"several,omitempty"` // mostSeveral at most, each by itself
}

type reply struct {
	// Fault says which of admin's errors Error is, if one.
	Fault string          `json:"fault,omitempty"`
	Error string          `json:"error,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// ask asks a node and reads its reply into value, which may be nil.
func (n *Node) ask(ctx context.Context, node string, q request, value any) error {
	return n.askThat(ctx, node, func(*peer.Conn) (request, error) { return q, nil }, value)
}

// askLeading asks who leads, as far as this node knows, for what an operator wants.
func (n *Node) askLeading(ctx context.Context, leader string, q request, value any) error {
	return unreached(leader, n.ask(ctx, leader, q, value))
}

// errLeadsNot is the answer of a node to what only a leader knows.
var errLeadsNot = fmt.Errorf("%w: who was asked leads no more, or not yet; try again in a moment", admin.ErrNoLeader)

// dialError reports that a node was not reached: it was asked nothing.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// cutError reports that a node was asked, and that no whole reply came.
type cutError struct{ error }

func (e cutError) Unwrap() error { return e.error }

// unreached says of a leader that was not reached that it leads no more, which others
// know a moment later, and of one that ended within the question that it may have done it.
func unreached(leader string, err error) error {
	if _, ok := errors.AsType[dialError](err); ok {
		return fmt.Errorf("%w: node %q led a moment ago and is not reached (%w); try again in a moment", admin.ErrNoLeader, leader, err)
	}
	if _, ok := errors.AsType[cutError](err); ok {
		return fmt.Errorf("%w: node %q leads, or did a moment ago, and has not answered (%w)", admin.ErrUnknown, leader, err)
	}
	return err
}

// askThat is ask with what compose makes for the stream.
func (n *Node) askThat(ctx context.Context, node string, compose func(*peer.Conn) (request, error), value any) error {
	raw, err := n.converse(ctx, node, compose)
	if err != nil || value == nil {
		return err
	}
	if err = json.Unmarshal(raw, value); err != nil {
		return fmt.Errorf("node: reply of %q: %w", node, err)
	}
	return nil
}

// converse asks a node what compose makes for the stream to it, and returns the
// value of its reply.
func (n *Node) converse(ctx context.Context, node string, compose func(*peer.Conn) (request, error)) (json.RawMessage, error) {
	c, err := n.port.Dial(ctx, node, peer.Control)
	if err != nil {
		return nil, dialError{err}
	}
	defer closeStream(c)
	q, err := compose(c)
	if err != nil {
		return nil, err
	}
	return askBy(ctx, c, node, q)
}

// askBy asks by a stream, which it closes if ctx ends meanwhile, and returns the value of the reply.
func askBy(ctx context.Context, c *peer.Conn, node string, q request) (json.RawMessage, error) {
	unhook := context.AfterFunc(ctx, func() { closeStream(c) })
	defer unhook()
	b, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("node: ask %s: %w", q.What, err)
	}
	if err = peer.WriteFrame(c, b); err != nil {
		return nil, cutError{fmt.Errorf("node: ask %q: %w", node, err)}
	}
	if b, err = peer.ReadFrame(c, nil, maxControl); err != nil {
		return nil, cutError{fmt.Errorf("node: ask %q: %w", node, err)}
	}
	var r reply
	if err = json.Unmarshal(b, &r); err != nil {
		return nil, cutError{fmt.Errorf("node: reply of %q: %w", node, err)}
	}
	if r.Error != "" {
		return nil, remoteError{text: r.Error, fault: faults[r.Fault]}
	}
	return r.Value, nil
}

// remoteError is an error that another node returned.
type remoteError struct {
	text  string
	fault error
}

func (e remoteError) Error() string { return e.text }
func (e remoteError) Unwrap() error { return e.fault }

var faults = map[string]error{"no-leader": admin.ErrNoLeader, "unknown-node": admin.ErrUnknownNode, "refused": admin.ErrRefused, "invalid": admin.ErrInvalid, "unknown": admin.ErrUnknown}

func faultOf(err error) string {
	for name, e := range faults {
		if errors.Is(err, e) {
			return name
		}
	}
	return ""
}

// serveControl answers questions, one after the other, until the other side ends the stream or asks
// no more. One that asks nothing and closes is a redial that looks whether this node is there.
func (n *Node) serveControl(ctx context.Context, c *peer.Conn) {
	defer closeStream(c)
	defer context.AfterFunc(ctx, func() { closeStream(c) })()
	from := asker{node: c.Node(), server: serverID(c.Node(), c.Peer().Disk), binding: func() ([]byte, error) { return bindingOf(c) }}
	for within := controlTimeout; n.answerNext(ctx, c, from, within); within = lineTimeout {
	}
}

// answerNext answers a question that comes within a time, and reports whether there may be another.
func (n *Node) answerNext(ctx context.Context, c *peer.Conn, from asker, within time.Duration) bool {
	hurry := time.AfterFunc(within, func() { closeStream(c) })
	b, err := peer.ReadFrame(c, nil, maxControl)
	if !hurry.Stop() || err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	unhook := context.AfterFunc(ctx, func() { closeStream(c) })
	defer unhook()
	if b, err = json.Marshal(n.answerTo(ctx, from, b)); err == nil {
		err = peer.WriteFrame(c, b)
	}
	if err != nil {
		n.log.Debug().Err(err).Str("peer", c.Node()).Msg("response not sent")
	}
	return err == nil
}

// answerTo answers one question, whatever its bytes are.
func (n *Node) answerTo(ctx context.Context, from asker, question []byte) reply {
	var q request
	if err := json.Unmarshal(question, &q); err != nil {
		return reply{Error: "node: question not understood: " + err.Error()}
	}
	return n.answerThat(ctx, from, q)
}

func (n *Node) answerThat(ctx context.Context, from asker, q request) reply {
	v, err := n.reply(ctx, from, q)
	if err != nil {
		return reply{Error: err.Error(), Fault: faultOf(err)}
	}
	b, err := json.Marshal(v)
	if err != nil {
		return reply{Error: err.Error()}
	}
	return reply{Value: b}
}

func (n *Node) reply(ctx context.Context, from asker, q request) (any, error) {
	switch q.What {
	case askFound:
		return n.founder.HandlePromise(ctx, from.node, q.Firm)
	case askFounder:
		return n.founder.HandleNeeds()
	case rotation.AskStep, rotation.AskLead:
		return n.rotation.Answer(ctx, from.node, q.What, q.Proven, from.binding)
	case askTiming:
		l := n.leadership()
		if l == nil {
			return nil, errLeadsNot
		}
		return l.retime(ctx, q.Timing, q.By)
	case askLevel:
		l := n.leadership()
		if l == nil {
			return nil, errLeadsNot
		}
		return l.level(ctx, q.Firm, q.By)
	case askMissing:
		m, err := n.reportSuspicion(ctx, from.server)
		return wireMissingOf(m), err
	case askSeveral:
		return n.answerAll(ctx, from, q.Several)
	case askTwin:
		return n.twin.Probe(ctx, from.node, q.Nonce), nil
	case askImplicated:
		if n.leadership() == nil {
			return nil, errLeadsNot
		}
		n.poison.heard(from.node, q.Implicated)
		return nil, nil //nolint:nilnil // there is nothing to say
	case askLoad:
		return n.proxy.Load(), nil
	case askPlan:
		l := n.leadership()
		if l == nil {
			return nil, errLeadsNot
		}
		return l.plan(ctx)
	case askReport:
		return n.report(ctx, q.Firm), nil
	case askRunning:
		return n.runningHere(), nil
	case askDrain:
		return n.drainHere(), nil
	case askSockets:
		return n.localWebSockets(), nil
	case askBreak:
		return n.breakLocal(q.Break, q.By), nil
	case askIdle:
		if q.Question != nil {
			return n.idleInStage(*q.Question), nil
		}
		return n.idleShards(), nil
	case askSuspects:
		return n.poison.list(), nil
	case askWho:
		return n.process(), nil
	case askUnadded:
		if n.leadership() == nil {
			return nil, errLeadsNot
		}
		return n.unconfirmed(), nil
	case askReachable:
		return n.reachable(ctx, from.node), nil
	case askForget:
		if from.node != n.leader() {
			return nil, fmt.Errorf("%w: node %q does not lead", admin.ErrRefused, from.node)
		}
		n.gossip.Forget(q.Server)
		return nil, nil
	case askRelease:
		return nil, n.released(from.node, q.Releases)
	case askViews:
		l := n.leadership()
		if l == nil {
			return nil, errLeadsNot
		}
		v, _ := l.view(ctx)
		return wireMembers(v)
	case askSettings:
		l := n.leadership()
		if l == nil {
			return nil, errLeadsNot
		}
		views, _ := l.view(ctx)
		return l.differences(views, from.node, q.Settings)
	case askDo:
		l := n.leadership()
		if l == nil {
			return nil, errLeadsNot
		}
		// What was asked of this node itself its admin port has logged.
		a := q.Action
		l.log.Info().Stringer("action", a.Verb).Str("peer", logs.Cut(a.Node)).Bool("force", a.Force).Str("by", logs.Cut(a.By)).Str("at", from.node).Msg("action requested")
		return nil, l.do(ctx, a)
	case askLeave:
		l := n.leadership()
		if l == nil {
			return nil, errLeadsNot
		}
		return nil, l.letGo(ctx, from.node, q.Server)
	}
	return nil, fmt.Errorf("node: unknown question %q: is the other node newer?", q.What)
}

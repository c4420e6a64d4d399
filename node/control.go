package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"shardway/admin/api"
	"shardway/node/logs"
	"shardway/node/rotation"
	"shardway/peer"
)

const (
	// viewTimeout bounds a request for the leader's view of the nodes.
	viewTimeout = 250 * time.Millisecond
	// controlTimeout bounds the wait for the first request of a stream, and the handling of each request.
	controlTimeout = 10 * time.Second
	// maxControl is the largest size of a request or a reply, in bytes.
	maxControl = 1 << 20
	// lineTimeout bounds the time between two requests on one stream. Followers query the leader every
	// 2 to 4 s, and half as often in a cluster of a hundred nodes.
	lineTimeout = time.Minute
)

// The requests that nodes send each other on control streams. A request and its reply are one frame of
// JSON each. Nodes of earlier versions close a stream after one request.
const (
	askViews   = "views"   // to the leader: return the view of all nodes
	askDo      = "do"      // to the leader: perform an administrative action
	askLeave   = "leave"   // to the leader: remove my server from the configuration
	askFound   = "found"   // to a new node: may I found the cluster?
	askFounder = "founder" // to a node that may found the cluster: do you, or have you?
	askTwin    = "twin"    // to any node: does another process use my ID?
	askTiming  = "timing"  // to the leader: change the timing
	askLevel   = "level"   // to the leader: return the format version, or raise it if firm
	askWho     = "who"     // to any process: which process are you?
	askRelease = "release" // to the leader: record the release notes of my shards

	askImplicated = "implicated" // to the leader: record the requests that ran at processes that ended
	askLoad       = "load"       // to any node: return your load
	askPlan       = "plan"       // to the leader: what would the next map move?
	askReport     = "report"     // to any node: return your report; if firm, with the ports that you cannot reach
	askRunning    = "running"    // to any node: return the requests that run at your app
	askDrain      = "drain"      // to any node: return the progress of your drain
	askIdle       = "idle"       // to any node: which of your shards are idle?
	askSuspects   = "suspects"   // to the leader: which keys may have ended processes?
	askSockets    = "sockets"    // to any node: which shards have WebSockets at you?
	askBreak      = "break"      // to any node: close upstream connections of resumable WebSockets
	askForget     = "forget"     // from the leader: remove a removed node from gossip
	askMissing    = "missing"    // to a voter: do you suspect your leader?
	askSettings   = "settings"   // to the leader: these are my settings; which ones differ between nodes?
	askReachable  = "reachable"  // to any node: can you reach my peer port?
	askUnadded    = "unadded"    // to the leader: which nodes are not added because you cannot reach their peer ports?
	askSeveral    = "several"    // to any node: reply to several requests
)

// asker is the peer that has opened a control stream.
type asker struct {
	node, server string
	// binding returns a value that is unique to this stream; see secret.Conn.
	binding func() ([]byte, error)
}

// request is a request on a control stream. What is one of the constants above, and determines which
// other fields are used.
type request struct {
	What   string          `json:"what"`
	Action api.Action      `json:"action,omitzero"`
	Server string          `json:"server,omitempty"` // askForget: a node
	Proven rotation.Proven `json:"proven,omitzero"`
	Timing api.Timing      `json:"timing,omitzero"`
	By     string          `json:"by,omitempty"`
	Nonce  uint64          `json:"nonce,omitempty"`
	Firm   bool            `json:"firm,omitempty"`
	// Releases are encoded by package ack.
	Releases []byte `json:"releases,omitempty"`

	Implicated []implication `json:"implicated,omitempty"`

	Break api.SocketBreak `json:"break,omitzero"`

	Settings map[string]string `json:"settings,omitempty"`
	// Question is set in an askIdle request for a staged change; nil means a gradual drain.
	Question *stageQuestion `json:"question,omitempty"`

	Several []request `json:"several,omitempty"` // at most maxQuestions, handled one by one
}

// reply is the reply to a request: a value or an error.
type reply struct {
	// Fault identifies the error of package admin that Error wraps; empty means none.
	Fault string          `json:"fault,omitempty"`
	Error string          `json:"error,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// ask sends a request to a node on a new stream, and decodes the reply into value. A nil value ignores
// the reply.
func (n *Node) ask(ctx context.Context, node string, q request, value any) error {
	return n.askThat(ctx, node, func(*peer.Conn) (request, error) { return q, nil }, value)
}

// askLeading sends a request of an operator to the leader that this node knows.
func (n *Node) askLeading(ctx context.Context, leader string, q request, value any) error {
	return unreached(leader, n.ask(ctx, leader, q, value))
}

// errLeadsNot is the reply of a node that does not lead to a request that only a leader can handle.
var errLeadsNot = fmt.Errorf("%w: who was asked leads no more, or not yet; try again in a moment", api.ErrNoLeader)

// dialError means that a node was not reachable, so it has not received the request.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// cutError means that the request may have reached the node, but no complete reply was received.
type cutError struct{ error }

func (e cutError) Unwrap() error { return e.error }

// unreached converts errors of a request to the leader. An unreachable leader no longer leads: the other
// nodes will notice that soon. If the stream broke during the request, the leader may have performed it.
func unreached(leader string, err error) error {
	if _, ok := errors.AsType[dialError](err); ok {
		return fmt.Errorf("%w: node %q led a moment ago and is not reached (%w); try again in a moment", api.ErrNoLeader, leader, err)
	}
	if _, ok := errors.AsType[cutError](err); ok {
		return fmt.Errorf("%w: node %q leads, or did a moment ago, and has not answered (%w)", api.ErrUnknown, leader, err)
	}
	return err
}

// askThat is like ask. compose creates the request for the stream.
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

// converse opens a stream to a node, sends the request that compose creates for it, and returns the
// value of the reply.
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

// askBy sends a request on an open stream and returns the value of the reply. It closes the stream if ctx
// ends before the reply.
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

var faults = map[string]error{"no-leader": api.ErrNoLeader, "unknown-node": api.ErrUnknownNode, "refused": api.ErrRefused, "invalid": api.ErrInvalid, "unknown": api.ErrUnknown}

// faultOf returns the name of the error of package admin that err wraps; empty means none.
func faultOf(err error) string {
	for name, e := range faults {
		if errors.Is(err, e) {
			return name
		}
	}
	return ""
}

// serveControl handles the requests of a stream one after the other, until the peer closes the stream or
// sends no request in time. A stream without a request is a redial: the peer only checks whether this
// node is reachable.
func (n *Node) serveControl(ctx context.Context, c *peer.Conn) {
	defer closeStream(c)
	defer context.AfterFunc(ctx, func() { closeStream(c) })()
	from := asker{node: c.Node(), server: serverID(c.Node(), c.Peer().Disk), binding: func() ([]byte, error) { return bindingOf(c) }}
	for within := controlTimeout; n.answerNext(ctx, c, from, within); within = lineTimeout {
	}
}

// answerNext handles the next request if it arrives within the given time, and reports whether another
// request may follow.
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
			return nil, fmt.Errorf("%w: node %q does not lead", api.ErrRefused, from.node)
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

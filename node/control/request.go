package control

import (
	"encoding/json"
	"errors"
	"fmt"

	"shardway/admin/api"
	"shardway/node/rotation"
)

const (
	// maxFrame is the maximum size of a request or a reply, in bytes.
	maxFrame = 1 << 20
	// MaxBatch is the largest number of requests in a Batch.
	MaxBatch = 8
)

// Request is a request on a control stream. Kind determines which other fields are used.
type Request struct {
	Kind   Kind            `json:"what"`
	Action api.Action      `json:"action,omitzero"`  // for AdminAction
	Server string          `json:"server,omitempty"` // for Leave: a server ID; for Forget and CheckNode: a node ID
	Proven rotation.Proven `json:"proven,omitzero"`  // for the requests of package rotation
	Timing api.Timing      `json:"timing,omitzero"`  // for Timing; empty changes nothing
	By     string          `json:"by,omitempty"`     // the requester outside the cluster, for the log
	Nonce  uint64          `json:"nonce,omitempty"`  // for Duplicate: identifies the sender's process
	// Execute makes the node act on a Kind that otherwise only reports or agrees.
	Execute bool `json:"firm,omitempty"`
	// Releases are encoded by package ack.
	Releases []byte `json:"releases,omitempty"`

	// Implicated are the crash reports of an Implicated request.
	Implicated json.RawMessage `json:"implicated,omitempty"`

	// WebSockets selects the WebSockets of a CloseWebSockets request.
	WebSockets api.SocketBreak `json:"break,omitzero"`

	Settings map[string]string `json:"settings,omitempty"` // settings of the sender, by name
	// StagedIdle is set in an Idle request for a staged change; nil means a gradual drain.
	StagedIdle json.RawMessage `json:"question,omitempty"`

	// Registry is the command of a Registry request. Without a command, the request asks for the index.
	Registry json.RawMessage `json:"registry,omitempty"`
	// Join is the state of a join request, for JoinStatus.
	Join json.RawMessage `json:"join,omitempty"`

	Batch []Request `json:"several,omitempty"` // at most MaxBatch, handled in order
}

// Reply is the reply to a Request: a value or an error.
type Reply struct {
	// Fault identifies the error of package api that Error wraps; empty means none.
	Fault string          `json:"fault,omitempty"`
	Error string          `json:"error,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// DecodeReply returns the value of a reply; ok is false if the reply is an error or invalid.
func DecodeReply[T any](r Reply) (v T, ok bool) {
	ok = r.Error == "" && json.Unmarshal(r.Value, &v) == nil
	return v, ok
}

// Decode decodes a field of a Request that is specific to its Kind. An absent field is the zero value.
func Decode[T any](field json.RawMessage) (v T, err error) {
	if len(field) == 0 {
		return v, nil
	}
	if err = json.Unmarshal(field, &v); err != nil {
		return v, fmt.Errorf("node: invalid request: %w", err)
	}
	return v, nil
}

// faults are the errors of package api that a Reply can carry, by name.
var faults = map[string]error{
	"no-leader": api.ErrNoLeader, "unknown-node": api.ErrUnknownNode, "refused": api.ErrRefused, "invalid": api.ErrInvalid, "unknown": api.ErrUnknown,
	"not-leader": api.ErrNotLeader, "node-unhealthy": api.ErrNodeUnhealthy, "no-active-nodes": api.ErrNoActiveNodes,
	"unknown-service": api.ErrUnknownService, "service-in-use": api.ErrServiceInUse, "busy": api.ErrBusy,
}

// specialFaults are the names of the faults that are special cases of other faults.
func specialFaults() []string {
	return []string{"not-leader", "node-unhealthy", "no-active-nodes", "service-in-use"}
}

// faultOf returns the name of the error of package api that err wraps; empty means none.
func faultOf(err error) string {
	for _, name := range specialFaults() {
		if errors.Is(err, faults[name]) {
			return name
		}
	}
	for name, e := range faults {
		if errors.Is(err, e) {
			return name
		}
	}
	return ""
}

package webhook

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"shardway/event"
)

const (
	// contentType is the media type of the JSON batch format of CloudEvents.
	contentType = "application/cloudevents-batch+json; charset=utf-8"
	// typePrefix is the prefix of the type of a CloudEvent; the kind of the event follows.
	typePrefix = "shardway."
	// sourcePrefix is the prefix of the source of a CloudEvent; the ID of the node follows.
	sourcePrefix = "shardway://node/"
)

// cloudEvent is an event in the JSON format of CloudEvents 1.0. Its field names are published.
type cloudEvent struct {
	SpecVersion string `json:"specversion"`
	// ID is unique for the source.
	ID     string    `json:"id"`
	Source string    `json:"source"`
	Type   string    `json:"type"`
	Time   time.Time `json:"time"`
	// Subject is the node that the event is about. It is empty if the event is not about a single node.
	Subject         string `json:"subject,omitempty"`
	DataContentType string `json:"datacontenttype"`
	// Occurrence is an extension attribute. Events of several nodes about one change have the same text. It is empty if
	// the change has no identity that all nodes share.
	Occurrence string `json:"occurrence,omitempty"`
	// Data is the event as in the response of GET /v1/events.
	Data *event.Event `json:"data"`
}

// Attributes returns the names of the attributes of a CloudEvent.
func Attributes() (names []string) {
	for field := range reflect.TypeFor[cloudEvent]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// convert returns the CloudEvent of an event.
func convert(e *event.Event) cloudEvent {
	c := cloudEvent{
		SpecVersion: "1.0", ID: e.ID, Source: sourcePrefix + e.At, Type: typePrefix + e.Kind.String(), Time: e.Time,
		Subject: e.Node, DataContentType: "application/json", Occurrence: occurrence(e), Data: e,
	}
	if e.Kind == event.Lost {
		// Its ID is that of the last lost event, which the receiver may have.
		c.ID = "lost-" + e.ID
	}
	return c
}

// occurrence returns the identity of the change that an event is about, if all nodes that observe the change know it. A
// map change has an epoch, and a leadership a term.
func occurrence(e *event.Event) string {
	switch e.Kind { //nolint:exhaustive // the other kinds have no such identity
	case event.MapProposed, event.MapCommitted, event.MapAbandoned, event.ShardsMoved:
		return e.Kind.String() + "/" + strconv.FormatUint(e.Epoch, 10)
	case event.LeaderElected:
		return fmt.Sprintf("%s/%d/%s", e.Kind, e.Term, e.Node)
	}
	return ""
}

// encode returns the JSON batch of the first events that fit into limit bytes, and their number, which is at least one.
func encode(events []event.Event, limit int) (body []byte, count int, err error) {
	body = append(body, '[')
	for i := range events {
		one, err := json.Marshal(convert(&events[i]))
		if err != nil {
			return nil, 0, fmt.Errorf("webhook: encode event: %w", err)
		}
		const separators = 2
		if count > 0 && len(body)+len(one)+separators > limit {
			break
		}
		if count > 0 {
			body = append(body, ',')
		}
		body = append(body, one...)
		count++
	}
	return append(body, ']'), count, nil
}

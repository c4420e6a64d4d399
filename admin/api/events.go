package api

import "shardway/event"

// EventList is the JSON response of GET /v1/events.
type EventList struct {
	Node   string        `json:"node"`
	Events []event.Event `json:"events"` // oldest first
	// Next is the value of the parameter "after" for the next request.
	Next string `json:"next"`
}

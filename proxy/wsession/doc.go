// Package wsession contains the parts of resumable WebSockets that do not depend on a connection: the
// states of a session, close codes, the pacing of hand-overs and reconnects, and their summary.
// Package proxy runs the sessions and their relays.
//
// A session is a WebSocket that survives the loss of its upstream connection. Its ingress, the node
// of the client's connection, runs successive relays for it. A relay uses one upstream connection. A
// State describes a session at its ingress:
//
//	           RelayStart: StartRequested
//	request ─────────────────────────────► Attached ─── RelayEnd: EndClosed, EndDisconnected,
//	                                        │    ▲      EndMustReconnect, EndProtocolError,
//	           RelayEnd: EndHandedOver,     │    │      EndClientGone ──► session ends
//	                     EndFailed          │    │ SessionEnd: SessionResumed
//	                                        ▼    │ RelayStart: StartHandedOver, StartAfterFailure
//	                                       Detached ─── SessionEnd: SessionRefused, SessionTimedOut,
//	                                                    SessionClientGone ──► session ends
//
// These types limit what happens when many sessions change their state at the same time:
//
//   - HandoverPacer requests the hand-overs of relays in small steps.
//   - ReconnectPacer limits how many sessions reconnect at the same time.
//   - ExclusiveUse ensures that only one request or relay of a session uses the app at a time.
//   - HandoverSummary counts the sessions affected by one move.
//
// Any number of goroutines may use them, except for a LatencyBaseline, which its owner must lock.
package wsession

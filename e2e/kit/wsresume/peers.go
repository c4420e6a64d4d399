//go:build linux

package wsresume

import "embed"

// Peers holds apps and clients in other languages. The apps support resumable sessions
// like the app of Serve. Their libraries answer a Close frame automatically, so these
// apps store their state after each message.
//
//go:embed peers
var Peers embed.FS

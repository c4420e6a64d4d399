//go:build linux

package wsresume

import "embed"

// Ends holds ends of sockets in other languages: apps that keep them as Serve's does, and
// clients. Of the libraries that they use each answers Close by itself, so an app stores
// as it goes.
//
//go:embed ends
var Ends embed.FS

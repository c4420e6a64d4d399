// Package version says which version of Shardway this source tree is.
package version

// Version is that of this source tree.
const Version = "0.1.0-dev"

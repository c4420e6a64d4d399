// Command shardway is a sharded HTTP reverse proxy for apps that keep state.
package main

func main() {}

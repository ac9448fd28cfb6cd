// Package pubsub sends messages to connections: those that clients publish, those about keys that clients have
// read, and those about events of keys.
//
// The [Hub] knows which connections listen to which channels and patterns. The [Tracker] knows which connections
// have read which keys, and notifies them that these have changed. The [Notifier] publishes keyspace notifications.
// Both read the changes of the store, so they see a change whatever its origin. A connection is a [Subscriber]:
// messages are left with it, and it sends them when it can.
package pubsub

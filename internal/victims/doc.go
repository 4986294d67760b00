// Package victims keeps what is in flight up to date: it joins what the API server lists, what the
// cgroups hold and what was measured, and tells [inflight.Tracker] and [indoubt.Tracker].
package victims

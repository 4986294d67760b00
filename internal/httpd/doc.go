// Package httpd serves what a platform team reads from a node agent over HTTP:
//
//	/metrics          Prometheus metrics
//	/livez            200 while the loop makes progress, else 503 and the reason
//	/readyz           200 while evictd could decide, else 503 and the reason
//	/debug/decisions  the last decisions as JSON, the newest first
//	/debug/status     what evictd knows of its node, as one JSON document
//
// It serves nothing else: no profiles and no way to change anything. It knows neither the loop nor
// the recorder; both are passed in as functions.
package httpd

package main

import "testing"

// A variable for one signal sends this signal alone, and the variable of the collector sends both.
func TestEndpointsOfTelemetry(t *testing.T) {
	const endpoint = "http://127.0.0.1:4318"
	for _, test := range []struct {
		variable      string
		spans, points int
	}{
		{"OTEL_EXPORTER_OTLP_HEADERS", 0, 0},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", 1, 1},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", 1, 0},
		{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", 0, 1},
	} {
		t.Run(test.variable, func(t *testing.T) {
			for _, signal := range []string{"", "TRACES_", "METRICS_"} {
				t.Setenv("OTEL_EXPORTER_OTLP_"+signal+"ENDPOINT", "")
			}
			t.Setenv(test.variable, endpoint)
			spans, points, err := exporters(t.Context())
			if err != nil || len(spans) != test.spans || len(points) != test.points {
				t.Errorf("%d for traces, %d for metrics, %v; want %d and %d", len(spans), len(points), err, test.spans, test.points)
			}
		})
	}
}

{{/* Names. Objects are called NAME-COMPONENT, with at most 63 characters together. */}}
{{- define "crossload.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "crossload.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "crossload.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "crossload.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "crossload.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{/* Labels of an object: (list ROOT COMPONENT). */}}
{{- define "crossload.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
{{ include "crossload.selector" . }}
{{- end }}

{{- define "crossload.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "crossload.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "crossload.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end }}

{{/* Whether servers have a certificate, and the secret with it. */}}
{{- define "crossload.tlsSecret" -}}
{{- if .Values.tls.existingSecret -}}
{{ .Values.tls.existingSecret }}
{{- else if .Values.tls.certManager.enabled -}}
{{ include "crossload.fullname" . }}-tls
{{- end -}}
{{- end }}

{{- define "crossload.scheme" -}}
{{- if include "crossload.tlsSecret" . -}}https{{- else -}}http{{- end -}}
{{- end }}

{{- define "crossload.macaroonSecret" -}}
{{- default (printf "%s-macaroons" (include "crossload.fullname" .)) .Values.macaroons.existingSecret -}}
{{- end }}

{{- define "crossload.capabilitySecret" -}}
{{- default (printf "%s-capabilities" (include "crossload.fullname" .)) .Values.redirector.capabilitySecret -}}
{{- end }}

{{- define "crossload.busSecret" -}}
{{- default (printf "%s-bus" (include "crossload.fullname" .)) .Values.bus.existingSecret -}}
{{- end }}

{{- define "crossload.queueKeySecret" -}}
{{- default (printf "%s-queue-key" (include "crossload.fullname" .)) .Values.queue.keySecret -}}
{{- end }}

{{/* A secret value that is made once and kept: (list ROOT SECRET KEY NEW). */}}
{{- define "crossload.kept" -}}
{{- $root := index . 0 -}}
{{- $found := lookup "v1" "Secret" $root.Release.Namespace (index . 1) -}}
{{- if and $found (hasKey (default dict $found.data) (index . 2)) -}}
{{- index $found.data (index . 2) -}}
{{- else -}}
{{- index . 3 | b64enc -}}
{{- end -}}
{{- end }}

{{/* The name of an endpoint's pod within the cluster: (list ROOT NUMBER). */}}
{{- define "crossload.podHost" -}}
{{- $root := index . 0 -}}
{{- $name := printf "%s-endpoint" (include "crossload.fullname" $root) -}}
{{- printf "%s-%d.%s-pods.%s.svc.%s" $name (int (index . 1)) $name $root.Release.Namespace $root.Values.clusterDomain -}}
{{- end }}

{{/* The URL by which clients and redirectors reach an endpoint's pod: (list ROOT NUMBER). */}}
{{- define "crossload.podUrl" -}}
{{- $root := index . 0 -}}
{{- $number := int (index . 1) -}}
{{- $host := include "crossload.podHost" . -}}
{{- if $root.Values.endpoint.publicHosts -}}
{{- $host = index $root.Values.endpoint.publicHosts $number -}}
{{- end -}}
{{- printf "%s://%s:%d" (include "crossload.scheme" $root) $host (int $root.Values.endpoint.port) -}}
{{- end }}

{{/* The host of a component's service: (list ROOT COMPONENT). */}}
{{- define "crossload.serviceHost" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%s.%s.svc.%s" (include "crossload.fullname" $root) (index . 1) $root.Release.Namespace $root.Values.clusterDomain -}}
{{- end }}

{{/* The ports of a queue for subscribers of messages, in JSON. */}}
{{- define "crossload.messagePorts" -}}
{{- $ports := list -}}
{{- range default list (default dict .Values.queue.config.messages).listen -}}
{{- $ports = append $ports (regexFind "[0-9]+$" . | int) -}}
{{- end -}}
{{- toJson (uniq $ports) -}}
{{- end }}

{{/* Combinations that the schema cannot know. Called once, by the service account. */}}
{{- define "crossload.mistakes" -}}
{{- $root := . -}}
{{- range $component := list "endpoint" "redirector" -}}
{{- $values := get $root.Values $component -}}
{{- $listen := (default dict $values.config.server).listen -}}
{{- if and $values.enabled $listen (not (regexMatch (printf ":%d( |$)" (int $values.port)) (join " " $listen))) -}}
{{- fail (printf "%s.config.server.listen lacks the port of the services and of the pods: set %s.port too, which is %d" $component $component (int $values.port)) -}}
{{- end -}}
{{- end -}}
{{- $endpoint := .Values.endpoint -}}
{{- $replicas := int $endpoint.replicas -}}
{{- if $endpoint.enabled -}}
{{- if and $endpoint.publicHosts (ne (len $endpoint.publicHosts) $replicas) -}}
{{- fail (printf "endpoint.publicHosts has %d names, and endpoint.replicas is %d: give one name for each replica" (len $endpoint.publicHosts) $replicas) -}}
{{- end -}}
{{- if and $endpoint.service.perPod.addresses (ne (len $endpoint.service.perPod.addresses) $replicas) -}}
{{- fail (printf "endpoint.service.perPod.addresses has %d addresses, and endpoint.replicas is %d: give one for each replica" (len $endpoint.service.perPod.addresses) $replicas) -}}
{{- end -}}
{{- if and (eq $endpoint.kind "Deployment") $endpoint.storage.enabled (not $endpoint.storage.volume) -}}
{{- fail "endpoint.kind is Deployment, whose pods share one storage: set endpoint.storage.volume to a volume that all of them can mount, or endpoint.storage.enabled to false for S3 and other servers" -}}
{{- end -}}
{{- if and (eq $endpoint.kind "Deployment") .Values.bus.enabled -}}
{{- fail "bus.enabled needs endpoint.kind StatefulSet: the pods of a Deployment have no names of their own" -}}
{{- end -}}
{{- if and (eq $endpoint.kind "Deployment") $endpoint.service.perPod.enabled -}}
{{- fail "endpoint.service.perPod needs endpoint.kind StatefulSet: the pods of a Deployment have no names of their own" -}}
{{- end -}}
{{- if and (eq $endpoint.kind "Deployment") .Values.redirector.enabled -}}
{{- fail "redirector.enabled needs endpoint.kind StatefulSet: a Deployment has one storage, so there is nothing to choose between" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.bus.enabled .Values.bus.servers (not .Values.bus.existingSecret) -}}
{{- fail "bus.servers names a bus that exists: set bus.existingSecret to a secret with the passwords of its users redirector, node-0, node-1, …" -}}
{{- end -}}
{{- if and .Values.bus.enabled (not .Values.redirector.enabled) -}}
{{- fail "bus.enabled without redirector.enabled: only redirectors use it; enable the redirector too" -}}
{{- end -}}
{{- if and .Values.redirector.enabled .Values.redirector.capabilities (not .Values.redirector.networks) -}}
{{- fail "redirector.capabilities needs redirector.networks: the networks of the redirector's pods, such as [\"10.244.0.0/16\"]" -}}
{{- end -}}
{{- if and .Values.queue.enabled (gt (int .Values.queue.replicas) 1) (not .Values.queue.database.url) -}}
{{- fail (printf "queue.replicas is %d, and SQLite serves one process: set queue.database.url to a PostgreSQL database" (int .Values.queue.replicas)) -}}
{{- end -}}
{{- if and .Values.mesh.enabled (not .Values.mesh.config.endpoint) -}}
{{- fail "mesh.enabled needs mesh.config.endpoint: a list of endpoints, each with name and urls" -}}
{{- end -}}
{{- end }}

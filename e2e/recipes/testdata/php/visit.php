<?php
// A usual PHP page with a session. It contains nothing for Shardway.
session_start();
$_SESSION['count'] = ($_SESSION['count'] ?? 0) + 1;
header('Content-Type: application/json');
echo json_encode([
    'count' => $_SESSION['count'],
    'instance' => getenv('INSTANCE'),
    'cookie' => $_SERVER['HTTP_COOKIE'] ?? '',
]);
